"""The inbox: events of programs, from their arrival until they are delivered or given up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NewType

from psycopg.rows import class_row

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder

EventId = NewType("EventId", int)

# What `record_events` takes in one call.
MOST_EVENTS = 10_000
MOST_BYTES = 5 << 20


@dataclass(frozen=True, slots=True)
class Rejected:
    """An event that was not stored, by its index from 0 in what was sent."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of the events of one call: seen = new + duplicate + rejected."""

    seen: int
    new: int
    duplicate: int
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event in the hands of a drainer; the payload is canonical JSON."""

    event_id: EventId
    dataset: str
    payload: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the events of a batch."""

    done: int
    waiting: int
    dead: int


@dataclass(frozen=True, slots=True)
class RawEvent:
    """An event as a person sees it in a listing; the payload of one that is done lies in its delivery."""

    event_id: EventId
    dataset: str
    state: str
    attempts: int
    crashes: int
    received_at: datetime
    settled_at: datetime | None
    reason: str | None
    payload: str | None
    batch_no: int | None


@dataclass(frozen=True, slots=True)
class InboxCount:
    """What is in the inbox of a dataset and not done."""

    dataset: str
    pending: int
    claimed: int
    dead: int
    oldest_pending_at: datetime | None


def record_events(connection: Connection, dataset: str, events: Sequence[str]) -> Recorded:
    """Put events into the inbox, each one JSON object as text; what cannot be kept is told by index."""
    with translated_errors():
        row = connection.execute(
            "select * from disarray.record_events(%s, %b::text[])", (dataset, list(events))
        ).fetchone()
    assert row is not None
    seen, new, duplicate, rejected = row
    return Recorded(seen, new, duplicate, tuple(Rejected(each["index"], each["reason"]) for each in rejected))


def claim_raw_events(
    connection: Connection,
    holder: Holder,
    datasets: Sequence[str],
    *,
    batch_no: int,
    limit: int,
    lease_seconds: int,
    max_attempts: int,
) -> list[ClaimedEvent]:
    """Claim waiting events of one of these datasets for a batch, in the order in which they were sent."""
    with translated_errors(), connection.cursor(row_factory=class_row(ClaimedEvent)) as cursor:
        return cursor.execute(
            "select * from disarray.claim_raw_events(%s, %s, %s::text[], %s, %s, %s, %s)",
            (
                batch_no,
                holder.instance_name,
                list(datasets),
                limit,
                lease_seconds,
                holder.incarnation,
                max_attempts,
            ),
        ).fetchall()


def settle_raw_events(
    connection: Connection,
    holder: Holder,
    *,
    batch_no: int,
    events: int,
    refused: Mapping[EventId, str],
    max_attempts: int,
) -> Settled:
    """End the claims of a batch of so many events, in the transaction that records its deliveries."""
    with translated_errors(), connection.cursor(row_factory=class_row(Settled)) as cursor:
        settled = cursor.execute(
            "select * from disarray.settle_raw_events(%s, %s, %s, %s, %s::bigint[], %s::text[], %s)",
            (
                batch_no,
                holder.instance_name,
                holder.incarnation,
                events,
                list(refused),
                list(refused.values()),
                max_attempts,
            ),
        ).fetchone()
    assert settled is not None
    return settled


def release_raw_events(connection: Connection, holder: Holder, *, batch_no: int) -> int:
    """Give a batch back where no event is to blame, without counting an attempt; how many were still held."""
    with translated_errors():
        row = connection.execute(
            "select disarray.release_raw_events(%s, %s, %s)",
            (batch_no, holder.instance_name, holder.incarnation),
        ).fetchone()
    assert row is not None
    return int(row[0])


def list_raw_events(
    connection: Connection,
    *,
    state: str = "dead",
    dataset: str | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
) -> list[RawEvent]:
    """Events of one state, in the order in which they were sent."""
    with translated_errors(), connection.cursor(row_factory=class_row(RawEvent)) as cursor:
        return cursor.execute(
            "select * from disarray.list_raw_events(%s, %s, %s, %s::text[])", (state, dataset, limit, after)
        ).fetchall()


def count_raw_events(connection: Connection) -> list[InboxCount]:
    """What is in the inbox and not done, by dataset."""
    with translated_errors(), connection.cursor(row_factory=class_row(InboxCount)) as cursor:
        return cursor.execute("select * from disarray.count_raw_events()").fetchall()


def replay_raw_events(connection: Connection, event_ids: Sequence[int], *, reason: str, by: str) -> int:
    """Try events that were given up once more, with a full set of attempts; how many, all or none."""
    return _decide(connection, "replay_raw_events", event_ids, reason=reason, by=by)


def discard_raw_events(connection: Connection, event_ids: Sequence[int], *, reason: str, by: str) -> int:
    """Take events that were given up off the list; how many, all or none."""
    return _decide(connection, "discard_raw_events", event_ids, reason=reason, by=by)


def correct_raw_event(connection: Connection, event_id: int, event: str, *, reason: str, by: str) -> EventId:
    """Put another event in the place of one that was given up; its number."""
    with translated_errors():
        row = connection.execute(
            "select disarray.correct_raw_event(%s, %s, %s, %s)", (event_id, event, reason, by)
        ).fetchone()
    assert row is not None
    return EventId(row[0])


def forget_raw_events(connection: Connection, *, keep: timedelta, is_rehearsal: bool = False) -> int:
    """Forget events that have been done or discarded for so long; how many. Sent again after that, one is new."""
    with translated_errors():
        row = connection.execute("select disarray.forget_raw_events(%s, %s)", (keep, is_rehearsal)).fetchone()
    assert row is not None
    return int(row[0])


def _decide(connection: Connection, function: str, event_ids: Sequence[int], *, reason: str, by: str) -> int:
    with translated_errors():
        row = connection.execute(
            f"select disarray.{function}(%s::bigint[], %s, %s)".encode(), (list(event_ids), reason, by)
        ).fetchone()
    assert row is not None
    return int(row[0])
