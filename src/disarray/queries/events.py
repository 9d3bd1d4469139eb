"""What happened to files, subjects and workers."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from disarray.control import events
from disarray.control.connections import Connection
from disarray.control.status import current_us
from disarray.model.documents import document_of
from disarray.model.segments import datetime_of
from disarray.queries.pages import Order

LATELY = timedelta(days=1)

ORDER = Order("events", {"occurred_at": datetime, "event_id": int})


@dataclass(frozen=True, kw_only=True)
class FileEvent:
    """Something that happened to a file; `instance_name` is the worker, `metadata.by` the person who asked."""

    occurred_at: datetime
    event_type: str
    instance_name: str | None
    metadata: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Event(FileEvent):
    """The same of a file, a subject or a worker."""

    source_uri: str | None
    subject_key: str | None


@dataclass(frozen=True)
class Events:
    """What happened, newest first; `next` is the cursor of the next page, null on the last."""

    events: list[Event]
    next: str | None


def list_events(
    connection: Connection,
    *,
    since: datetime | None = None,
    subject_key: str | None = None,
    source_uri: str | None = None,
    event_type: str | None = None,
    queue_id: int | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Events:
    """What happened since an instant, or on the last day, newest first."""
    read = partial(
        events.list_events,
        connection,
        since=since or datetime_of(current_us(connection)) - LATELY,
        subject_key=subject_key,
        source_uri=source_uri,
        event_type=event_type,
        queue_id=queue_id,
    )
    found, following = ORDER.page(read, after=after, limit=limit)
    return Events([document_of(Event, each) for each in found], following)
