"""Ends of claims: keeping what was taken from the queue, giving it back, and ending it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import call, fetch_value
from disarray.control.metadata import Metadata, as_jsonb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder, QueueId


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an item could not be done, and whether another try may help."""

    queue_id: QueueId
    error_message: str
    is_permanent: bool = False


def assert_subject_held(
    connection: Connection, subject_key: str, holder: Holder, *, fence: int | None = None
) -> int:
    """First statement of every commit: until the transaction ends, nobody can take the subject over. Its fence."""
    return fetch_value(
        connection,
        int,
        "select disarray.assert_subject_held(%s, %s, %s, %s)",
        (subject_key, holder.instance_name, holder.incarnation, fence),
    )


def complete_item(
    connection: Connection, queue_id: QueueId, holder: Holder, *, metadata: Metadata | None = None
) -> None:
    """End a claim whose work is committed."""
    complete_items(connection, [queue_id], holder, metadata=[metadata or {}])


def complete_items(
    connection: Connection,
    queue_ids: Sequence[QueueId],
    holder: Holder,
    *,
    metadata: Sequence[Metadata] | None = None,
) -> None:
    """End many claims in one round trip, all or none."""
    results = [as_jsonb(result) for result in metadata] if metadata is not None else None
    call(
        connection,
        "select disarray.complete_items(%s::bigint[], %s, %s::jsonb[], %s)",
        (list(queue_ids), holder.instance_name, results, holder.incarnation),
    )


def fail_item(
    connection: Connection,
    queue_id: QueueId,
    holder: Holder,
    *,
    error_message: str,
    retry_delay_seconds: int | None = None,
    metadata: Metadata | None = None,
    is_permanent: bool = False,
) -> None:
    """Give an item back after a failure; without a delay it waits 1, 5, 25 and then 125 minutes."""
    call(
        connection,
        "select disarray.fail_item(%s, %s, %s, %s, %s, %s, %s)",
        (
            queue_id,
            holder.instance_name,
            _storable(error_message),
            retry_delay_seconds,
            as_jsonb(metadata or {}),
            holder.incarnation,
            is_permanent,
        ),
    )


def fail_items(
    connection: Connection,
    failures: Sequence[Failure],
    holder: Holder,
    *,
    retry_delay_seconds: int | None = None,
    is_counted: bool = True,
) -> None:
    """Give many items back in one round trip, all or none, without a deadlock whatever else goes on.

    Those that are not counted wait for something else to be mended, however often.
    """
    call(
        connection,
        "select disarray.fail_items(%s::bigint[], %s, %s::text[], %s, null, %s, %s::boolean[], %s)",
        (
            [failure.queue_id for failure in failures],
            holder.instance_name,
            [_storable(failure.error_message) for failure in failures],
            retry_delay_seconds,
            holder.incarnation,
            [failure.is_permanent for failure in failures],
            is_counted,
        ),
    )


def _storable(message: str) -> str:
    # Errors quote file names, and a name that is no valid text must not keep its item from going back.
    return message.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def release_subject(connection: Connection, subject_key: str, holder: Holder) -> None:
    """Hand a subject back with what is claimed of it; no attempt is counted."""
    call(
        connection,
        "select disarray.release_subject(%s, %s, %s)",
        (subject_key, holder.instance_name, holder.incarnation),
    )


def release_subjects(connection: Connection, subject_keys: Sequence[str], holder: Holder) -> None:
    """Hand back many subjects in one round trip; where one of them is lost, none is."""
    call(
        connection,
        "select disarray.release_subjects(%s::text[], %s, %s)",
        (list(subject_keys), holder.instance_name, holder.incarnation),
    )


def renew_subjects(
    connection: Connection, subject_keys: Sequence[str], holder: Holder, *, lease_seconds: int
) -> list[str]:
    """Renew leases; answers which were renewed. One that is missing is lost, or its commit is under way."""
    return fetch_value(
        connection,
        list,
        "select disarray.renew_subjects(%s::text[], %s, %s, %s)",
        (list(subject_keys), holder.instance_name, lease_seconds, holder.incarnation),
    )


def return_unknown_claims(connection: Connection, known_queue_ids: Sequence[QueueId], holder: Holder) -> int:
    """Hand back claims whose reply was lost on the way; how many there were."""
    return fetch_value(
        connection,
        int,
        "select disarray.return_unknown_claims(%s::bigint[], %s, %s)",
        (list(known_queue_ids), holder.instance_name, holder.incarnation),
    )
