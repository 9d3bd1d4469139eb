"""Subjects that wait for the definition in force, one after the other, and how far the order of one of them is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import fetch_records, find_record
from disarray.control.replays import ReplayedSubject, ReplayExtent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """Whether a subject still waits, whether an order that moves it is queued, and why one failed meanwhile."""

    is_pending: bool
    is_queued: bool
    last_error: str | None


def next_pending_rebuild(
    connection: Connection,
    after: Sequence[str] | None,
    *,
    datasets: Sequence[str],
    subjects: Sequence[str] | None,
) -> ReplayedSubject | None:
    """The next subject and dataset behind a cursor that wait for the definition in force."""
    return find_record(
        connection,
        ReplayedSubject,
        "select * from disarray.next_pending_rebuild(%s::text[], %s::text[], %s::text[])",
        (after, list(datasets), None if subjects is None else list(subjects)),
    )


def measure_pending_rebuilds(
    connection: Connection, *, datasets: Sequence[str], subjects: Sequence[str] | None
) -> ReplayExtent:
    """How much waits for the definition in force."""
    [extent] = fetch_records(
        connection,
        ReplayExtent,
        "select * from disarray.measure_pending_rebuilds(%s::text[], %s::text[])",
        (list(datasets), None if subjects is None else list(subjects)),
    )
    return extent


def rebuild_progress(
    connection: Connection, dataset: str, subject_key: str, *, since: datetime
) -> RebuildProgress:
    """How far the rebuild of a subject is."""
    [progress] = fetch_records(
        connection,
        RebuildProgress,
        "select * from disarray.rebuild_progress(%s, %s, %s)",
        (dataset, subject_key, since),
    )
    return progress
