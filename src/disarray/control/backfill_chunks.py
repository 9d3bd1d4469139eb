"""Chunks of backfills: cut, claimed by lease and fence, kept, ended, given back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from disarray.control.calls import call, fetch_records, fetch_value, find_record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from decimal import Decimal

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder


class ClaimOutcome(StrEnum):
    """What came of asking for a chunk; all but the first say why there is none."""

    CLAIMED = "claimed"
    RATE = "rate"
    CONCURRENCY = "concurrency"
    RETRY = "retry"
    NONE = "none"
    OVER = "over"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureLimits:
    """When a chunk is given up, and what share of dead chunks is told, or stops the job."""

    max_attempts: int
    max_error_rate: float
    alert_threshold: float


@dataclass(frozen=True, slots=True)
class ScanTurn:
    """The turn to cut the next chunk: where the last one ended, and how many rows the next should have."""

    scan_after: list[str] | None
    cursor_end: list[str]
    chunk_rows: int


@dataclass(frozen=True, slots=True)
class ChunkClaim:
    """The answer to a claim: a chunk, or why there is none and how long to wait."""

    outcome: str
    wait_seconds: float
    chunk_no: int | None
    cursor_from: list[str] | None
    cursor_to: list[str] | None
    rows_cut: int | None
    attempts: int | None
    fence: int | None
    chunk_rows: int
    seconds_per_row: float | None
    rate_limit: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldChunk:
    """A chunk in the hands of a worker: behind `cursor_from` (None: from the first row), up to and with `cursor_to`."""

    job_id: int
    chunk_no: int
    cursor_from: tuple[str, ...] | None
    cursor_to: tuple[str, ...]
    rows_cut: int
    attempts: int
    fence: int
    holder: Holder

    @property
    def key(self) -> tuple[int, int, str, int, int]:
        """What every call about the chunk is checked by."""
        return (self.job_id, self.chunk_no, self.holder.instance_name, self.holder.incarnation, self.fence)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkResult:
    """What a chunk did, and its stretch right after: how many rows, and their checksum (32 hex digits).

    `written_xid` is the transaction that wrote rows of a user's table, `oldest_xid` the oldest that was under way then;
    `details` is what a kind has to say besides, at most 100,000 bytes of JSON.
    """

    rows_written: int
    rows_read_again: int
    rows_after: int
    checksum: str
    written_xid: str | None = None
    oldest_xid: str | None = None
    details: dict[str, Any] | None = None


@dataclass(frozen=True)
class ChunkRecord:
    """A chunk as a person sees it in a listing; `place` is its place in the order of the cursor."""

    chunk_no: int
    place: Decimal
    cursor_from: list[str] | None
    cursor_to: list[str]
    rows_cut: int
    state: str
    attempts: int
    failures: int
    available_at: datetime
    instance_name: str | None
    last_error: str | None
    rows_written: int | None
    rows_read_again: int | None
    rows_after: int | None
    checksum: str | None
    written_xid: str | None
    oldest_xid: str | None
    details: dict[str, Any] | None
    seconds: float | None
    ended_at: datetime | None


def lock_backfill_scan(connection: Connection, job_id: int, *, ahead: int) -> ScanTurn | None:
    """The turn to cut the next chunk, until the transaction ends; None where nothing is to be cut now."""
    return find_record(
        connection, ScanTurn, "select * from disarray.lock_backfill_scan(%s, %s)", (job_id, ahead)
    )


def add_backfill_chunk(
    connection: Connection, job_id: int, *, cursor_to: Sequence[str], rows: int, is_last: bool
) -> int:
    """Cut a chunk, in the transaction of `lock_backfill_scan`: its number."""
    return fetch_value(
        connection,
        int,
        "select disarray.add_backfill_chunk(%s, %s::text[], %s, %s)",
        (job_id, list(cursor_to), rows, is_last),
    )


def claim_backfill_chunk(
    connection: Connection, job_id: int, holder: Holder, *, lease_seconds: int, limits: FailureLimits
) -> ChunkClaim:
    """Claim the next chunk, or learn why there is none."""
    [claim] = fetch_records(
        connection,
        ChunkClaim,
        "select * from disarray.claim_backfill_chunk(%s, %s, %s, %s, %s, %s::float8, %s::float8)",
        (
            job_id,
            holder.instance_name,
            holder.incarnation,
            lease_seconds,
            limits.max_attempts,
            limits.max_error_rate,
            limits.alert_threshold,
        ),
    )
    return claim


def hold_backfill_chunk(connection: Connection, chunk: HeldChunk) -> None:
    """Lock the row of a chunk until the transaction ends, or `LeaseLostError`."""
    call(connection, "select disarray.hold_backfill_chunk(%s, %s, %s, %s, %s)", chunk.key)


def renew_backfill_chunk(connection: Connection, chunk: HeldChunk, *, lease_seconds: int) -> None:
    """Keep a chunk for longer, or `LeaseLostError`."""
    call(
        connection,
        "select disarray.renew_backfill_chunk(%s, %s, %s, %s, %s, %s)",
        (*chunk.key, lease_seconds),
    )


def cut_backfill_chunk(
    connection: Connection, chunk: HeldChunk, error: str, *, cursor_to: Sequence[str], rows: int
) -> int:
    """Give a chunk back in two because it takes too long: it ends at a cursor within; the number of the rest."""
    return fetch_value(
        connection,
        int,
        "select disarray.cut_backfill_chunk(%s, %s, %s, %s, %s, %s::text[], %s, %s)",
        (*chunk.key, list(cursor_to), rows, error),
    )


def complete_backfill_chunk(
    connection: Connection,
    chunk: HeldChunk,
    result: ChunkResult,
    *,
    seconds: float,
    seconds_per_row: float | None,
    chunk_rows: int | None,
) -> None:
    """End a chunk, in the transaction that wrote its rows."""
    call(
        connection,
        "select disarray.complete_backfill_chunk(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::float8, %s::float8,"
        " %s, %s)",
        (
            *chunk.key,
            result.rows_written,
            result.rows_read_again,
            result.rows_after,
            result.checksum,
            result.written_xid,
            result.oldest_xid,
            seconds,
            seconds_per_row,
            chunk_rows,
            None if result.details is None else Jsonb(result.details),
        ),
    )


def fail_backfill_chunk(
    connection: Connection,
    chunk: HeldChunk,
    error: str,
    *,
    retry_delay_seconds: float,
    is_to_blame: bool,
    limits: FailureLimits,
) -> str:
    """Give a chunk back with what went wrong; the state that it has now."""
    return fetch_value(
        connection,
        str,
        "select disarray.fail_backfill_chunk(%s, %s, %s, %s, %s, %s, %s::float8, %s, %s, %s::float8, %s::float8)",
        (
            *chunk.key,
            error,
            retry_delay_seconds,
            limits.max_attempts,
            is_to_blame,
            limits.max_error_rate,
            limits.alert_threshold,
        ),
    )


def list_backfill_chunks(
    connection: Connection,
    job_id: int,
    *,
    state: str | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
) -> list[ChunkRecord]:
    """The chunks of a job, in their order."""
    return fetch_records(
        connection,
        ChunkRecord,
        "select * from disarray.list_backfill_chunks(%s, %s, %s, %s::text[])",
        (job_id, state, limit, after),
    )
