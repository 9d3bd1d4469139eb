"""Backfills: jobs, how fast they may go, and what operators decide."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from disarray.control.calls import call, fetch_records, fetch_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from disarray.control.connections import Connection


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


def stop_backfill(connection: Connection, job_id: int, reason: str) -> None:
    """Stop a job that cannot go on; its chunks stay as they are."""
    call(connection, "select disarray.stop_backfill(%s, %s)", (job_id, reason))


def note_backfill_hold(connection: Connection, job_id: int, held_by: str | None, reason: str | None) -> None:
    """Keep what holds a job back right now; None: nothing does."""
    call(connection, "select disarray.note_backfill_hold(%s, %s, %s)", (job_id, held_by, reason))


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


def live_health(connection: Connection) -> LiveHealth:
    """How live work fares: p99 from claim to commit, and the age of the oldest live item."""
    [health] = fetch_records(connection, LiveHealth, "select * from disarray.live_health()")
    return health


def forget_backfills(connection: Connection, *, keep: timedelta, is_rehearsal: bool = False) -> int:
    """Forget jobs that ended so long ago, with their chunks; how many."""
    return fetch_value(connection, int, "select disarray.forget_backfills(%s, %s)", (keep, is_rehearsal))
