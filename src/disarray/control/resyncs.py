"""Resyncs of table sources: generations of deliveries that are staged, and swapped subject by subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from disarray.control.calls import call, fetch_records, fetch_rows, fetch_value, find_record
from disarray.control.deliveries import DeliveredFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from decimal import Decimal

    from disarray.control.backfill_chunks import HeldChunk
    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class ResyncState:
    """How far a resync is: its generation, None before it has begun, and the chunks that were cut so far."""

    batch_no: int | None
    key_end: list[Any] | None
    server: str | None
    description: str | None
    is_verified: bool | None
    open_chunks: int
    dead_chunks: int
    dead_error: str | None


@dataclass(frozen=True, slots=True)
class StagedChunk:
    """A chunk that reads a stretch of the table; counts and checksum are those of what it read, None until then."""

    chunk_no: int
    place: Decimal
    state: str
    cursor_from: list[str] | None
    cursor_to: list[str]
    rows: int | None
    checksum: str | None


@dataclass(frozen=True, slots=True)
class SwapSize:
    """What the swap of a resync would do; of `readings_before`, `readings_gone` would count no more, or more of them.

    Without lost chunks, all that was read is staged.
    """

    subjects: int
    subjects_without_rows: int
    readings_before: int
    readings_gone: int
    rows_read: int
    rows_staged: int
    lost_chunks: int


@dataclass(frozen=True, slots=True)
class SwapProgress:
    """Whether a subject still has the generation before, whether its order is queued, and why one failed meanwhile.

    An order that is claimed is in the hands of a worker; of a resync that was given up none will be queued any more,
    and where it is replaced, another resync of the source began since.
    """

    is_pending: bool
    is_queued: bool
    is_claimed: bool
    is_given_up: bool
    is_replaced: bool
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSwap:
    """The files of a subject that are to count, and those whose place they take."""

    job_id: int
    dataset: str
    subject_key: str
    staged: tuple[str, ...]
    former: tuple[str, ...]
    rows: int

    @property
    def key(self) -> tuple[str, str]:
        """The dataset and subject that it is about."""
        return self.dataset, self.subject_key


def begin_resync(
    connection: Connection,
    job_id: int,
    *,
    source_name: str,
    table_name: str,
    dataset: str,
    key_end: Sequence[Any] | None,
    server: str,
    description: str,
) -> int:
    """Give a generation its number: pulls that are under way lose their turn, and later ones win over it."""
    return fetch_value(
        connection,
        int,
        "select disarray.begin_resync(%s, %s, %s, %s, %s, %s, %s)",
        (
            job_id,
            source_name,
            table_name,
            dataset,
            None if key_end is None else Jsonb(list(key_end)),
            server,
            description,
        ),
    )


def find_resync(connection: Connection, job_id: int) -> ResyncState:
    """How far a resync is."""
    [state] = fetch_records(connection, ResyncState, "select * from disarray.find_resync(%s)", (job_id,))
    return state


def stage_deliveries(
    connection: Connection, job_id: int, chunk_no: int, files: Sequence[DeliveredFile]
) -> None:
    """Name the files of a chunk in place of those that it named before; they count for nothing yet."""
    call(
        connection,
        "select disarray.stage_deliveries(%s, %s, %b::text[], %b::text[], %b::bigint[], %b::bigint[])",
        (
            job_id,
            chunk_no,
            [file.source_uri for file in files],
            [file.subject_key for file in files],
            [file.rows for file in files],
            [file.bytes for file in files],
        ),
    )


def list_staged_deliveries(connection: Connection, job_id: int, chunk_no: int) -> list[DeliveredFile]:
    """The files of a chunk that do not count yet."""
    rows = fetch_rows(
        connection,
        "select source_uri, subject_key, rows, bytes from disarray.list_staged_deliveries(%s, %s)",
        (job_id, chunk_no),
    )
    return [
        DeliveredFile(source_uri=uri, subject_key=subject, rows=count, bytes=size)
        for uri, subject, count, size in rows
    ]


def next_staged_chunk(connection: Connection, job_id: int, after: str | None) -> StagedChunk | None:
    """The next chunk that reads the table, behind a place."""
    return find_record(
        connection,
        StagedChunk,
        "select * from disarray.next_staged_chunk(%s, %s::numeric)",
        (job_id, after),
    )


def repeat_staged_chunk(connection: Connection, held: HeldChunk, chunk_no: int, error: str) -> None:
    """Let a chunk be read once more, because what it staged is not what it read.

    That is what the holder of the chunk says that compares it; `LeaseLostError` where it holds it no longer.
    """
    call(
        connection,
        "select disarray.repeat_staged_chunk(%s, %s, %s, %s, %s, %s, %s)",
        (*held.key, chunk_no, error),
    )


def measure_swap(connection: Connection, job_id: int) -> SwapSize:
    """What the swap would do."""
    [size] = fetch_records(connection, SwapSize, "select * from disarray.measure_swap(%s)", (job_id,))
    return size


def verify_resync(connection: Connection, job_id: int) -> None:
    """Let subjects be swapped."""
    call(connection, "select disarray.verify_resync(%s)", (job_id,))


def next_swapped_subject(connection: Connection, job_id: int, after: str | None) -> tuple[str, int] | None:
    """The next subject that has not been swapped, and how many rows its new generation has."""
    rows = fetch_rows(
        connection,
        "select subject_key, rows from disarray.next_swapped_subject(%s, %s)",
        (job_id, after),
    )
    return None if not rows else (rows[0][0], rows[0][1])


def queue_resync(connection: Connection, job_id: int, subject_key: str) -> None:
    """Queue the order that swaps a subject."""
    call(connection, "select disarray.queue_resync(%s, %s)", (job_id, subject_key))


def resync_progress(
    connection: Connection, job_id: int, subject_key: str, *, since: datetime
) -> SwapProgress:
    """How far the swap of a subject is."""
    [progress] = fetch_records(
        connection,
        SwapProgress,
        "select * from disarray.resync_progress(%s, %s, %s)",
        (job_id, subject_key, since),
    )
    return progress


def load_swap(connection: Connection, job_id: int, subject_key: str) -> GenerationSwap | None:
    """What is to be swapped of a subject; None where nothing is, or the resync was given up."""
    rows = fetch_rows(
        connection,
        "select dataset, source_uri, is_staged, rows from disarray.load_swap(%s, %s)",
        (job_id, subject_key),
    )
    if not rows:
        return None
    return GenerationSwap(
        job_id=job_id,
        dataset=rows[0][0],
        subject_key=subject_key,
        staged=tuple(uri for _, uri, is_staged, _ in rows if is_staged),
        former=tuple(uri for _, uri, is_staged, _ in rows if not is_staged),
        rows=sum(count for _, _, _, count in rows),
    )


def find_superseded_deliveries(connection: Connection, source_uris: Sequence[str]) -> set[str]:
    """Those of some files in whose place a generation of a resync counts."""
    rows = fetch_rows(
        connection, "select * from disarray.find_superseded_deliveries(%s::text[])", (list(source_uris),)
    )
    return {uri for (uri,) in rows}
