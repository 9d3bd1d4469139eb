"""Subjects: what a worker does to one that it holds, where each stands, and what may be asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.rows import class_row

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder, QueueId


@dataclass(frozen=True, slots=True)
class SubjectState:
    """Where a subject stands; `stale_from` is None where all its numbers are final."""

    subject_key: str
    first_seen_at: datetime
    files: int
    dead_letters: int
    waiting_items: int
    claimed_items: int
    held_by: str | None
    lease_expires_at: datetime | None
    stale_from: datetime | None


@dataclass(frozen=True, slots=True)
class ReconcileRequest:
    """A stale subject and the item that reconciles it; `queue_id` is None where `held_by` sees to it already."""

    subject_key: str
    stale_from: datetime
    queue_id: QueueId | None
    held_by: str | None


def assert_subject_held(
    connection: Connection, subject_key: str, holder: Holder, *, fence: int | None = None
) -> int:
    """First statement of every commit: until the transaction ends, nobody can take the subject over. Its fence."""
    with translated_errors():
        row = connection.execute(
            "select disarray.assert_subject_held(%s, %s, %s, %s)",
            (subject_key, holder.instance_name, holder.incarnation, fence),
        ).fetchone()
    assert row is not None
    return int(row[0])


def mark_dirty(
    connection: Connection,
    subject_key: str,
    holder: Holder,
    *,
    range_start: datetime,
    range_end: datetime,
    reason: str,
) -> None:
    """Note that derived numbers of a span are stale until the subject is reconciled."""
    with translated_errors():
        connection.execute(
            "select disarray.mark_dirty(%s, %s, %s, %s, %s, %s)",
            (subject_key, holder.instance_name, range_start, range_end, reason, holder.incarnation),
        )


def reconcile_subject(connection: Connection, subject_key: str, holder: Holder) -> datetime | None:
    """Resolve every open dirty range; the frontier that was resolved, or None where nothing was stale."""
    with translated_errors():
        row = connection.execute(
            "select disarray.reconcile_subject(%s, %s, %s)",
            (subject_key, holder.instance_name, holder.incarnation),
        ).fetchone()
    assert row is not None
    frontier: datetime | None = row[0]
    return frontier


def list_subject_states(
    connection: Connection, *, subject_key: str | None = None, limit: int = 1000
) -> list[SubjectState]:
    """Every subject ever seen, by name."""
    with translated_errors(), connection.cursor(row_factory=class_row(SubjectState)) as cursor:
        return cursor.execute(
            "select * from disarray.list_subject_states(%s, %s)", (subject_key, limit)
        ).fetchall()


def request_reconcile(
    connection: Connection, subject_keys: Sequence[str] | None, *, reason: str, by: str
) -> list[ReconcileRequest]:
    """Queue the repair of subjects, or of all, that have open dirty ranges; the others are left out."""
    with translated_errors(), connection.cursor(row_factory=class_row(ReconcileRequest)) as cursor:
        return cursor.execute(
            "select * from disarray.request_reconcile(%s::text[], %s, %s)",
            (list(subject_keys) if subject_keys is not None else None, reason, by),
        ).fetchall()
