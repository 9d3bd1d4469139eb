"""Spans whose derived numbers are stale, and how they become final again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from disarray.control.calls import call, fetch_records, find_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder, QueueId


@dataclass(frozen=True, slots=True)
class ReconcileRequest:
    """A stale subject and the item that reconciles it; `queue_id` is None where `held_by` sees to it already."""

    subject_key: str
    stale_from: datetime
    queue_id: QueueId | None
    held_by: str | None


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
    call(
        connection,
        "select disarray.mark_dirty(%s, %s, %s, %s, %s, %s)",
        (subject_key, holder.instance_name, range_start, range_end, reason, holder.incarnation),
    )


def reconcile_subject(connection: Connection, subject_key: str, holder: Holder) -> datetime | None:
    """Resolve every open dirty range; the frontier that was resolved, or None where nothing was stale."""
    return find_value(
        connection,
        datetime,
        "select disarray.reconcile_subject(%s, %s, %s)",
        (subject_key, holder.instance_name, holder.incarnation),
    )


def request_reconcile(
    connection: Connection, subject_keys: Sequence[str] | None, *, reason: str, by: str
) -> list[ReconcileRequest]:
    """Queue the repair of subjects, or of all, that have open dirty ranges; the others are left out."""
    return fetch_records(
        connection,
        ReconcileRequest,
        "select * from disarray.request_reconcile(%s::text[], %s, %s)",
        (list(subject_keys) if subject_keys is not None else None, reason, by),
    )
