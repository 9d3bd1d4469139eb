"""What was given up, and what an operator decides about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import call, fetch_records, fetch_rows
from disarray.control.queue import QueueId

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A file whose last request failed for good; `reason` is what was asked for, `last_error` why it failed."""

    source_uri: str
    subject_key: str
    dataset: str | None
    reason: str
    attempts: int
    crashes: int
    failed_at: datetime
    last_error: str | None
    content_hash: str | None


def list_dead_letters(
    connection: Connection,
    *,
    source_uri: str | None = None,
    subject_key: str | None = None,
    failed_before: datetime | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
) -> list[DeadLetter]:
    """All that was given up and not discarded, oldest first."""
    return fetch_records(
        connection,
        DeadLetter,
        "select * from disarray.list_dead_letters(%s, %s, %s, %s, %s::text[])",
        (source_uri, subject_key, failed_before, limit, after),
    )


def retry_dead_letters(
    connection: Connection, source_uris: Sequence[str], *, reason: str, by: str
) -> dict[str, QueueId]:
    """Ask for the same once more, with a full set of attempts; the items by uri, all or none."""
    rows = fetch_rows(
        connection,
        "select source_uri, queue_id from disarray.retry_dead_letters(%s::text[], %s, %s)",
        (list(source_uris), reason, by),
    )
    return {uri: QueueId(queue_id) for uri, queue_id in rows}


def discard_dead_letters(connection: Connection, source_uris: Sequence[str], *, reason: str, by: str) -> None:
    """Take them off the list, all or none; a new version of a file, or a request by name, revives it."""
    call(
        connection,
        "select disarray.discard_dead_letters(%s::text[], %s, %s)",
        (list(source_uris), reason, by),
    )
