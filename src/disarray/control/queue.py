"""Claims: taking work, keeping it, ending it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NewType

from psycopg.rows import args_row, class_row

from disarray.control.metadata import Metadata, as_jsonb
from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from disarray.control.connections import Connection

QueueId = NewType("QueueId", int)
Incarnation = NewType("Incarnation", int)


@dataclass(frozen=True)
class Holder:
    """One life of an instance: whose name and incarnation every claim and commit carries."""

    instance_name: str
    incarnation: Incarnation


class OrderKind(StrEnum):
    """What a queue row asks for, as in the enum ``ingest_queue_kind``; reading and removing are about a file."""

    READ = "read"
    REMOVE = "remove"
    REBUILD = "rebuild"
    RECONCILE = "reconcile"
    COMPACT = "compact"
    COPY = "copy"


class Lane(StrEnum):
    """Whether numbers wait for an order, as in the enum ``ingest_queue_lane``."""

    LIVE = "live"
    BACKFILL = "backfill"


@dataclass(frozen=True)
class QueueItem:
    """A claimed work order; ``source_uri`` is None where it is about a subject."""

    queue_id: QueueId
    source_uri: str | None
    subject_key: str
    reason: str
    metadata: Metadata
    retry_count: int
    lease_expires_at: datetime
    fence: int
    dataset: str | None
    content_hash: str | None
    incarnation: Incarnation
    kind: OrderKind
    lane: Lane

    @property
    def file_uri(self) -> str:
        """The file that it is about."""
        if self.source_uri is None:
            raise ValueError(f"item {self.queue_id} ({self.kind}) is about a subject, not a file")
        return self.source_uri


@dataclass(frozen=True)
class QueueEntry:
    """An item as a person sees it in a listing; ``source_uri`` is None where it is about a subject."""

    queue_id: QueueId
    source_uri: str | None
    subject_key: str
    dataset: str | None
    reason: str
    status: str
    retry_count: int
    max_retries: int
    enqueued_at: datetime
    available_at: datetime
    claimed_by_instance_name: str | None
    lease_expires_at: datetime | None
    kind: str
    lane: str


@dataclass(frozen=True)
class FetchPolicy:
    """How much to claim at once, for how long, and when to let other subjects go first."""

    limit: int = 10
    lease_seconds: int = 300
    max_subjects: int = 1
    give_way_batches: int = 20
    give_way_seconds: int = 60


DEFAULT_POLICY = FetchPolicy()


def fetch_items(
    connection: Connection, holder: Holder, policy: FetchPolicy = DEFAULT_POLICY
) -> list[QueueItem]:
    """Claim work, on subjects already held first. Not idempotent: see ``return_unknown_claims``."""
    with translated_errors(), connection.cursor(row_factory=args_row(_claimed), binary=True) as cursor:
        return cursor.execute(
            "select * from disarray.fetch_items(%s, %s, %s, %s, %s, %s, %s)",
            (
                holder.instance_name,
                policy.limit,
                policy.lease_seconds,
                holder.incarnation,
                policy.max_subjects,
                policy.give_way_batches,
                policy.give_way_seconds,
            ),
        ).fetchall()


def _claimed(*values: Any) -> QueueItem:
    item = QueueItem(*values)
    return replace(item, kind=OrderKind(item.kind), lane=Lane(item.lane))


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
    with translated_errors():
        connection.execute(
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
    with translated_errors():
        connection.execute(
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


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an item could not be done, and whether another try may help."""

    queue_id: QueueId
    error_message: str
    is_permanent: bool = False


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
    with translated_errors():
        connection.execute(
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
    with translated_errors():
        connection.execute(
            "select disarray.release_subject(%s, %s, %s)",
            (subject_key, holder.instance_name, holder.incarnation),
        )


def renew_subjects(
    connection: Connection, subject_keys: Sequence[str], holder: Holder, *, lease_seconds: int
) -> list[str]:
    """Renew leases; answers which were renewed. One that is missing is lost, or its commit is under way."""
    with translated_errors():
        row = connection.execute(
            "select disarray.renew_subjects(%s::text[], %s, %s, %s)",
            (list(subject_keys), holder.instance_name, lease_seconds, holder.incarnation),
        ).fetchone()
    assert row is not None
    return list(row[0])


def return_unknown_claims(connection: Connection, known_queue_ids: Sequence[QueueId], holder: Holder) -> int:
    """Hand back claims whose reply was lost on the way; how many there were."""
    with translated_errors():
        row = connection.execute(
            "select disarray.return_unknown_claims(%s::bigint[], %s, %s)",
            (list(known_queue_ids), holder.instance_name, holder.incarnation),
        ).fetchone()
    assert row is not None
    return int(row[0])


def list_queue(
    connection: Connection, *, subject_key: str | None = None, status: str | None = None, limit: int = 100
) -> list[QueueEntry]:
    """What is queued, oldest first."""
    with translated_errors(), connection.cursor(row_factory=class_row(QueueEntry)) as cursor:
        return cursor.execute(
            "select * from disarray.list_queue(%s, %s, %s)", (subject_key, status, limit)
        ).fetchall()
