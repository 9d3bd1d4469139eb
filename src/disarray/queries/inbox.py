"""The inbox of events: what waits in it, and what was given up."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from disarray.control import raw_events
from disarray.control.connections import Connection
from disarray.model.documents import document_of
from disarray.queries.pages import Order

ORDER = Order("events of the inbox", {"event_id": int})


@dataclass(frozen=True, kw_only=True)
class InboxEvent:
    """An event of the inbox; `reason` is why it could not be read. Of one that is done the payload is delivered."""

    event_id: int
    dataset: str
    state: str
    attempts: int
    crashes: int
    received_at: datetime
    settled_at: datetime | None
    reason: str | None
    payload: str | None
    batch_no: int | None


@dataclass(frozen=True)
class InboxEvents:
    """Events in the order in which they were sent; `next` is the cursor of the next page, null on the last."""

    events: list[InboxEvent]
    next: str | None


def list_inbox_events(
    connection: Connection,
    *,
    state: str = "dead",
    dataset: str | None = None,
    limit: int = 100,
    after: str | None = None,
) -> InboxEvents:
    """Events of one state, in the order in which they were sent."""
    read = partial(raw_events.list_raw_events, connection, state=state, dataset=dataset)
    found, following = ORDER.page(read, after=after, limit=limit)
    return InboxEvents([document_of(InboxEvent, each) for each in found], following)
