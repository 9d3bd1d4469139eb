"""Deliveries: files that a source wrote, and the batches that they belong to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import call, fetch_records, fetch_rows, fetch_value
from disarray.control.files import Enqueued, Verdict
from disarray.control.metadata import as_jsonb
from disarray.control.queue import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a source hands over at once. Of two batches the later has the greater number, and wins under one key."""

    batch_no: int
    source_name: str
    run_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredFile:
    """What a batch says about one subject: a file that is on disk for certain."""

    source_uri: str
    subject_key: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """What became of the rows of a batch: seen = taken + duplicate + rejected."""

    seen: int
    taken: int
    duplicate: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class BatchRecord:
    """A batch as a person sees it in a listing."""

    batch_no: int
    source_name: str
    dataset: str
    run_id: UUID
    instance_name: str
    rows_seen: int
    rows_taken: int
    rows_duplicate: int
    rows_rejected: int
    files: int
    bytes: int
    cursor_from: str | None
    cursor_to: str | None
    delivered_at: datetime


@dataclass(frozen=True)
class SpentDelivery:
    """A file of the landing folder of which nothing counts or waits any more."""

    source_uri: str
    bytes: int


def begin_batch(connection: Connection, source_name: str, *, run_id: UUID) -> Batch:
    """A new batch, which nobody else has; nothing is written."""
    return Batch(batch_no=next_batch(connection), source_name=source_name, run_id=run_id)


def next_batch(connection: Connection) -> int:
    """The number of a new batch, greater than every one before."""
    return fetch_value(connection, int, "select disarray.next_batch()")


def record_deliveries(
    connection: Connection,
    batch: Batch,
    files: Sequence[DeliveredFile],
    *,
    dataset: str,
    counts: BatchCounts,
    instance_name: str,
    cursor_from: str | None = None,
    cursor_to: str | None = None,
    lane: Lane = Lane.LIVE,
) -> list[Enqueued]:
    """Store a batch and queue its files to be read.

    Checks no lease: the caller has locked what it took from, and advances or marks it in the same transaction.
    """
    rows = fetch_rows(
        connection,
        """
            select source_uri, queue_id, verdict
            from disarray.record_deliveries(
                %s, %s, %s, %s, %s, %s, %s, %s, %b::text[], %b::text[], %b::bigint[], %b::bigint[],
                %s
            )
            """,
        (
            batch.batch_no,
            batch.source_name,
            dataset,
            batch.run_id,
            instance_name,
            as_jsonb(asdict(counts)),
            cursor_from,
            cursor_to,
            [file.source_uri for file in files],
            [file.subject_key for file in files],
            [file.rows for file in files],
            [file.bytes for file in files],
            str(lane),
        ),
    )
    return [Enqueued(source_uri, queue_id, Verdict(verdict)) for source_uri, queue_id, verdict in rows]


def list_batches(
    connection: Connection, *, source_name: str | None = None, limit: int = 100
) -> list[BatchRecord]:
    """The newest batches, of one source where it is named."""
    return fetch_records(
        connection, BatchRecord, "select * from disarray.list_batches(%s, %s)", (source_name, limit)
    )


def find_unknown_deliveries(connection: Connection, source_uris: Sequence[str]) -> list[str]:
    """Those of some files that no batch ever named."""
    rows = fetch_rows(
        connection, "select * from disarray.find_unknown_deliveries(%s::text[])", (list(source_uris),)
    )
    return [uri for (uri,) in rows]


def list_spent_deliveries(
    connection: Connection, *, keep: timedelta, limit: int = 1_000
) -> list[SpentDelivery]:
    """Files that were delivered so long ago and of which nothing counts or waits any more."""
    return fetch_records(
        connection, SpentDelivery, "select * from disarray.list_spent_deliveries(%s, %s)", (keep, limit)
    )


def note_deleted_deliveries(connection: Connection, source_uris: Sequence[str]) -> None:
    """Write down that files are deleted, before they are."""
    call(connection, "select disarray.note_deleted_deliveries(%s::text[])", (list(source_uris),))
