"""Work that waits or runs."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from disarray.control import events, queue
from disarray.control.connections import Connection
from disarray.control.status import current_us
from disarray.errors import UnknownNameError
from disarray.model.documents import document_of
from disarray.model.item_status import ItemStatus
from disarray.model.segments import datetime_of
from disarray.queries.events import LATELY, Event, FileEvent, list_events
from disarray.queries.pages import Order

# By the time of the next attempt an item would move while pages are read.
ORDER = Order("queued items", {"queue_id": int})
SHORTLY = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class QueueItem:
    """A queued item; `source_uri` is null where it is about a subject and no file."""

    queue_id: int
    source_uri: str | None
    subject_key: str
    dataset: str | None
    kind: str
    lane: str
    reason: str
    status: ItemStatus
    retry_count: int
    max_retries: int
    enqueued_at: datetime
    available_at: datetime
    claimed_by_instance_name: str | None
    lease_expires_at: datetime | None


@dataclass(frozen=True)
class Queue:
    """Queued items in the order of their numbers; `next` is the cursor of the next page, null on the last."""

    items: list[QueueItem]
    next: str | None


@dataclass(frozen=True, kw_only=True)
class QueueItemStory:
    """What became of an item: once it has left the queue, `item` is null and `status` the type of its last event.

    That is `completed`, or `dead_letter` where it was given up. `events` are those that name the item, newest first.
    """

    queue_id: int
    source_uri: str | None
    subject_key: str | None
    status: str
    item: QueueItem | None
    events: list[FileEvent]


def list_queue(
    connection: Connection,
    *,
    subject_key: str | None = None,
    status: ItemStatus | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Queue:
    """What is queued, in the order in which it was."""
    read = partial(queue.list_queue, connection, subject_key=subject_key, status=status)
    found, following = ORDER.page(read, after=after, limit=limit)
    return Queue([_item(each) for each in found], following)


def show_queue_item(connection: Connection, *, queue_id: int) -> QueueItemStory:
    """An item that is queued, or that left the queue within the last day."""
    # First the queue: an item that leaves it meanwhile has an event, and the other way round nobody would know of it.
    queued = [
        _item(each)
        for each in queue.list_queue(connection, after=[str(queue_id - 1)], limit=1)
        if each.queue_id == queue_id
    ]
    item = queued[0] if queued else None
    about = item or _last_event(connection, queue_id)
    if about is None:
        raise UnknownNameError(
            f"no item {queue_id} is queued, and none left the queue within the last day. Nothing was done. The events "
            "of its file or subject tell what became of older ones"
        )
    return QueueItemStory(
        queue_id=queue_id,
        source_uri=about.source_uri,
        subject_key=about.subject_key,
        status=about.status if isinstance(about, QueueItem) else about.event_type,
        item=item,
        events=_events_of(connection, queue_id, about.source_uri),
    )


def _last_event(connection: Connection, queue_id: int) -> Event | None:
    """Whoever waits for an item asks soon after its end: some minutes are looked through before a day is."""
    now = datetime_of(current_us(connection))
    for span in (SHORTLY, LATELY):
        found = list_events(connection, queue_id=queue_id, since=now - span, limit=1).events
        if found:
            return found[0]
    return None


def _events_of(connection: Connection, queue_id: int, source_uri: str | None) -> list[FileEvent]:
    happened = (
        list_events(connection, queue_id=queue_id).events
        if source_uri is None
        else events.list_file_events(connection, source_uri)
    )
    return [document_of(FileEvent, each) for each in happened if each.metadata.get("queue_id") == queue_id]


def _item(entry: queue.QueueEntry) -> QueueItem:
    return document_of(QueueItem, entry, status=ItemStatus(entry.status))
