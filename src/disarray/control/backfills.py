"""Backfills: jobs, their chunks, how fast they may go, and what verification found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from disarray.control.calls import call, fetch_records, fetch_value, find_record, find_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder


class BackfillState(StrEnum):
    """As in the enum ``backfill_job_state``."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    VERIFYING = "verifying"
    DONE = "done"
    CANCELLED = "cancelled"


class BackfillDecision(StrEnum):
    """What an operator may decide about a job."""

    PAUSED = "paused"
    RESUMED = "resumed"
    CANCELLED = "cancelled"


class ClaimOutcome(StrEnum):
    """What came of asking for a chunk; all but the first say why there is none."""

    CLAIMED = "claimed"
    RATE = "rate"
    CONCURRENCY = "concurrency"
    RETRY = "retry"
    NONE = "none"
    OVER = "over"
    STOPPED = "stopped"


class Verdict(StrEnum):
    """What verification found."""

    VERIFIED = "verified"
    CHANGED = "changed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class ActiveBackfill:
    """A job that a worker may have something to do for."""

    job_id: int
    job_key: UUID
    kind: str
    description: dict[str, Any]
    state: str


@dataclass(frozen=True)
class BackfillRecord:
    """A job as a person sees it in a listing; rows by their chunks, instants of the database."""

    job_id: int
    job_key: UUID
    name: str
    kind: str
    description: dict[str, Any]
    state: str
    state_reason: str | None
    cursor_end: list[str] | None
    scan_after: list[str] | None
    scanned_at: datetime | None
    rows_estimated: int
    answer_before: Any
    started_at: datetime
    started_by: str
    ended_at: datetime | None
    verdict: str | None
    verdict_details: dict[str, Any] | None
    verified_at: datetime | None
    chunks_waiting: int
    chunks_claimed: int
    chunks_done: int
    chunks_dead: int
    failures: int
    rows_done: int
    rows_written: int
    rows_read_again: int
    rows_of_last_minute: int
    rate_limit: float | None
    max_concurrency: int
    chunk_rows: int
    held_by: str | None
    held_reason: str | None
    held_at: datetime | None
    listed_at: datetime


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

    `written_xid` is the transaction that wrote rows of a user's table; `details` is what a kind has to say besides, at
    most 100,000 bytes of JSON.
    """

    rows_written: int
    rows_read_again: int
    rows_after: int
    checksum: str
    written_xid: str | None = None
    details: dict[str, Any] | None = None


@dataclass(frozen=True)
class ChunkRecord:
    """A chunk as a person sees it in a listing."""

    chunk_no: int
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
    details: dict[str, Any] | None
    seconds: float | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class LiveHealth:
    """How live work fares; None where there was none."""

    commit_p99_seconds: float | None
    queue_age_seconds: float | None


def start_backfill(
    connection: Connection,
    name: str,
    kind: str,
    *,
    description: Mapping[str, Any],
    cursor_end: Sequence[str] | None,
    rows_estimated: int,
    answer_before: object,
    rate_limit: float | None,
    max_concurrency: int,
    chunk_rows: int,
    reason: str,
    by: str,
) -> int:
    """Begin a backfill: its number."""
    return fetch_value(
        connection,
        int,
        "select disarray.start_backfill(%s, %s, %s, %s::text[], %s, %s, %s::float8, %s, %s, %s, %s)",
        (
            name,
            kind,
            Jsonb(dict(description)),
            None if cursor_end is None else list(cursor_end),
            rows_estimated,
            None if answer_before is None else Jsonb(answer_before),
            rate_limit,
            max_concurrency,
            chunk_rows,
            reason,
            by,
        ),
    )


def lock_backfill_scan(connection: Connection, job_id: int, *, ahead: int) -> ScanTurn | None:
    """The turn to cut the next chunk, until the transaction ends; None where nothing is to be cut now."""
    return find_record(
        connection, ScanTurn, "select * from disarray.lock_backfill_scan(%s, %s)", (job_id, ahead)
    )


def add_backfill_chunk(
    connection: Connection, job_id: int, *, cursor_to: Sequence[str] | None, rows: int | None, is_last: bool
) -> int | None:
    """Cut a chunk, in the transaction of `lock_backfill_scan`; without an end only the cutting is over."""
    return find_value(
        connection,
        int,
        "select disarray.add_backfill_chunk(%s, %s::text[], %s, %s)",
        (job_id, None if cursor_to is None else list(cursor_to), rows, is_last),
    )


def claim_backfill_chunk(
    connection: Connection, job_id: int, holder: Holder, *, lease_seconds: int, max_attempts: int
) -> ChunkClaim:
    """Claim the next chunk, or learn why there is none."""
    [claim] = fetch_records(
        connection,
        ChunkClaim,
        "select * from disarray.claim_backfill_chunk(%s, %s, %s, %s, %s)",
        (job_id, holder.instance_name, holder.incarnation, lease_seconds, max_attempts),
    )
    return claim


def assert_backfill_chunk_held(connection: Connection, chunk: HeldChunk) -> None:
    """Lock the row of a chunk until the transaction ends, or `LeaseLostError`."""
    call(connection, "select disarray.assert_backfill_chunk_held(%s, %s, %s, %s, %s)", chunk.key)


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
        "select disarray.complete_backfill_chunk(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::float8, %s::float8, %s,"
        " %s)",
        (
            *chunk.key,
            result.rows_written,
            result.rows_read_again,
            result.rows_after,
            result.checksum,
            result.written_xid,
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
    max_attempts: int,
    is_to_blame: bool,
    max_error_rate: float,
    alert_threshold: float,
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
            max_attempts,
            is_to_blame,
            max_error_rate,
            alert_threshold,
        ),
    )


def stop_backfill(connection: Connection, job_id: int, reason: str) -> None:
    """Stop a job that cannot go on; its chunks stay as they are."""
    call(connection, "select disarray.stop_backfill(%s, %s)", (job_id, reason))


def note_backfill_hold(connection: Connection, job_id: int, held_by: str | None, reason: str | None) -> None:
    """Keep what holds a job back right now; None: nothing does."""
    call(connection, "select disarray.note_backfill_hold(%s, %s, %s)", (job_id, held_by, reason))


def claim_backfill_verification(
    connection: Connection, job_id: int, holder: Holder, *, lease_seconds: int, is_asked_for: bool = False
) -> int | None:
    """Take the turn to verify a job: the fence; None where it is not due or another verifies it."""
    return find_value(
        connection,
        int,
        "select disarray.claim_backfill_verification(%s, %s, %s, %s, %s)",
        (job_id, holder.instance_name, holder.incarnation, lease_seconds, is_asked_for),
    )


def renew_backfill_verification(
    connection: Connection, job_id: int, holder: Holder, *, fence: int, lease_seconds: int
) -> None:
    """Keep the turn to verify for longer, or `LeaseLostError`."""
    call(
        connection,
        "select disarray.renew_backfill_verification(%s, %s, %s, %s, %s)",
        (job_id, holder.instance_name, holder.incarnation, fence, lease_seconds),
    )


def record_backfill_verdict(
    connection: Connection,
    job_id: int,
    holder: Holder,
    *,
    fence: int,
    verdict: Verdict,
    details: Mapping[str, Any],
) -> None:
    """Keep what verification found, and end the job."""
    call(
        connection,
        "select disarray.record_backfill_verdict(%s, %s, %s, %s, %s, %s)",
        (job_id, holder.instance_name, holder.incarnation, fence, str(verdict), Jsonb(dict(details))),
    )


def decide_backfill(
    connection: Connection, job_id: int, decision: BackfillDecision, *, reason: str, by: str
) -> BackfillState:
    """Pause, resume or cancel a job: the state that it has now."""
    return BackfillState(
        fetch_value(
            connection,
            str,
            "select disarray.decide_backfill(%s, %s, %s, %s)",
            (job_id, str(decision), reason, by),
        )
    )


def set_backfill_pace(
    connection: Connection,
    job_id: int,
    *,
    rate_limit: float | None,
    max_concurrency: int,
    reason: str,
    by: str,
) -> None:
    """Change how fast a job may go, while it runs."""
    call(
        connection,
        "select disarray.set_backfill_pace(%s, %s::float8, %s, %s, %s)",
        (job_id, rate_limit, max_concurrency, reason, by),
    )


def list_backfills(
    connection: Connection,
    *,
    job_id: int | None = None,
    is_active: bool | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
) -> list[BackfillRecord]:
    """Jobs, the newest first."""
    return fetch_records(
        connection,
        BackfillRecord,
        "select * from disarray.list_backfills(%s, %s, %s, %s::text[])",
        (job_id, is_active, limit, after),
    )


def list_active_backfills(connection: Connection) -> list[ActiveBackfill]:
    """The jobs that a worker may have something to do for, the oldest first."""
    return fetch_records(connection, ActiveBackfill, "select * from disarray.list_active_backfills()")


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


def live_health(connection: Connection) -> LiveHealth:
    """How live work fares: p99 from claim to commit, and the age of the oldest live item."""
    [health] = fetch_records(connection, LiveHealth, "select * from disarray.live_health()")
    return health
