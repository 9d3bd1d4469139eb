"""Figures about backfills for a monitoring system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import fetch_records

if TYPE_CHECKING:
    from datetime import datetime

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class BackfillFigures:
    """A job that has not ended; `idle_seconds` since its last chunk ended, None where it is paused or stopped."""

    job_id: int
    name: str
    state: str
    rows_estimated: int
    rows_done: int
    chunks_dead: int
    held_by: str | None
    idle_seconds: float | None


@dataclass(frozen=True, slots=True)
class _InState:
    state: str
    jobs: int


@dataclass(frozen=True, slots=True)
class _WithVerdict:
    verdict: str
    jobs: int


def count_backfills(connection: Connection) -> dict[str, int]:
    """Jobs by state, those that have ended and are kept among them."""
    found = fetch_records(connection, _InState, "select * from disarray.count_backfills()")
    return {each.state: each.jobs for each in found}


def count_backfill_verdicts(connection: Connection, *, since: datetime) -> dict[str, int]:
    """Jobs that were given a verdict since then, by verdict; of those of one name the newest alone counts."""
    found = fetch_records(
        connection, _WithVerdict, "select * from disarray.count_backfill_verdicts(%s)", (since,)
    )
    return {each.verdict: each.jobs for each in found}


def list_backfill_figures(connection: Connection) -> list[BackfillFigures]:
    """The jobs that have not ended, the oldest first."""
    return fetch_records(connection, BackfillFigures, "select * from disarray.list_backfill_figures()")
