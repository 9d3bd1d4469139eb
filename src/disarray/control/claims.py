"""Claims: which work a worker gets from the queue, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.rows import args_row

from disarray.control.calls import fetch_value
from disarray.control.queue import Lane, OrderKind, QueueItem
from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from disarray.control.queue import Holder


@dataclass(frozen=True)
class FetchPolicy:
    """How much to claim at once, for how long, and when to let other subjects go first."""

    limit: int = 10
    lease_seconds: int = 300
    max_subjects: int = 1
    give_way_batches: int = 20
    give_way_seconds: int = 60


DEFAULT_POLICY = FetchPolicy()


def fetch_items(
    connection: Connection, holder: Holder, policy: FetchPolicy = DEFAULT_POLICY
) -> list[QueueItem]:
    """Claim work, on subjects already held first. Not idempotent: see ``return_unknown_claims``."""
    with translated_errors(), connection.cursor(row_factory=args_row(_claimed), binary=True) as cursor:
        return cursor.execute(
            "select * from disarray.fetch_items(%s, %s, %s, %s, %s, %s, %s)",
            (
                holder.instance_name,
                policy.limit,
                policy.lease_seconds,
                holder.incarnation,
                policy.max_subjects,
                policy.give_way_batches,
                policy.give_way_seconds,
            ),
        ).fetchall()


def is_live_work_waiting(connection: Connection, holder: Holder) -> bool:
    """Whether something waits in the live lane that this holder could claim."""
    return fetch_value(connection, bool, "select disarray.is_live_work_waiting(%s)", (holder.instance_name,))


def _claimed(*values: Any) -> QueueItem:
    *others, kind, lane = values
    return QueueItem(*[*others, OrderKind(kind), Lane(lane)])
