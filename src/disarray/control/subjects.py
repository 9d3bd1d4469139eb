"""What a worker does to a subject that it holds, inside its commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from datetime import datetime

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder


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
