"""Backfills: how far they are, how fast they go, what holds them back, and what verification found."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from disarray.control import backfill_chunks, backfills, replays
from disarray.control.backfills import BackfillRecord
from disarray.control.connections import Connection
from disarray.errors import UnknownBackfillError
from disarray.model.documents import document_of
from disarray.queries.pages import Order

ORDER = Order("backfills", {"job_id": int})
_RATE_SECONDS = 60.0
_SHOWN_DEAD = 20
_SHOWN_FINDINGS = 100


@dataclass(frozen=True, kw_only=True)
class Backfill:
    """A job and its progress; `rows_per_second` is that of the last minute, `held_reason` what it waits for now."""

    job_id: int
    name: str
    kind: str
    target: str
    state: str
    state_reason: str | None
    rows_estimated: int
    rows_done: int
    rows_written: int
    rows_read_again: int
    rows_per_second: float
    eta_seconds: float | None
    chunks_waiting: int
    chunks_claimed: int
    chunks_done: int
    chunks_dead: int
    failures: int
    rate_limit: float | None
    max_concurrency: int
    chunk_rows: int
    held_by: str | None
    held_reason: str | None
    started_at: datetime
    started_by: str
    ended_at: datetime | None
    verdict: str | None
    verified_at: datetime | None


@dataclass(frozen=True)
class DeadChunk:
    """A chunk that was given up; its rows are as they were."""

    chunk_no: int
    cursor_from: list[str] | None
    cursor_to: list[str]
    rows_cut: int
    attempts: int
    last_error: str | None
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class BackfillFinding:
    """What a replay found: a number that is `different`, or what is `unproven` or `not_compared`.

    `stored` and `replayed` are texts; a float has its bits behind it, in hexadecimal.
    """

    kind: str
    dataset: str
    subject_key: str
    segment_us: int | None
    what: str
    name: str
    channel: str
    stored: str | None
    replayed: str | None


@dataclass(frozen=True, kw_only=True)
class BackfillDetails(Backfill):
    """A job with its description, its verdict, the first of its dead chunks and of what it found."""

    description: dict[str, object]
    verdict_details: dict[str, object] | None
    dead_chunks: list[DeadChunk]
    findings: list[BackfillFinding]


@dataclass(frozen=True)
class Backfills:
    """Jobs, the newest first; `next` is the cursor of the next page, null on the last."""

    backfills: list[Backfill]
    next: str | None


def list_backfills(connection: Connection, *, limit: int = 100, after: str | None = None) -> Backfills:
    """Jobs, the newest first."""
    read = partial(backfills.list_backfills, connection)
    found, following = ORDER.page(read, after=after, limit=limit)
    return Backfills([document_of(Backfill, each, **_progress(each)) for each in found], following)


def show_backfill(connection: Connection, *, job_id: int) -> BackfillDetails:
    """One job with all that is known of it."""
    found = backfills.list_backfills(connection, job_id=job_id)
    if not found:
        raise UnknownBackfillError(
            f"there is no backfill job {job_id}. Nothing was changed. disarray backfill list names those that there are"
        )
    dead = backfill_chunks.list_backfill_chunks(connection, job_id, state="dead", limit=_SHOWN_DEAD)
    chunks = [document_of(DeadChunk, chunk) for chunk in dead]
    listed = replays.list_backfill_findings(connection, job_id, limit=_SHOWN_FINDINGS)
    findings = [document_of(BackfillFinding, each) for each in listed]
    return document_of(
        BackfillDetails, found[0], dead_chunks=chunks, findings=findings, **_progress(found[0])
    )


def _progress(record: BackfillRecord) -> dict[str, Any]:
    ended_at = record.ended_at or record.listed_at
    elapsed = (ended_at - record.started_at).total_seconds()
    if record.ended_at is None:
        rate = record.rows_of_last_minute / max(min(elapsed, _RATE_SECONDS), 1e-3)
    else:
        rate = record.rows_done / max(elapsed, 1e-3)
    left = max(record.rows_estimated - record.rows_done, 0)
    is_active = record.state == "running" and rate > 0
    return {
        # Jobs of before the kinds were several do not say it.
        "target": record.description.get("target") or record.description["source"]["table"],
        "rows_per_second": round(rate, 1),
        "eta_seconds": round(left / rate, 1) if is_active else None,
    }
