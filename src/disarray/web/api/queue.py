"""Work that waits or runs, and what became of it."""

from dataclasses import dataclass

from disarray.model.item_status import ItemStatus
from disarray.queries.queue import Queue, QueueItemStory, list_queue, show_queue_item
from disarray.web.parameters import PageAsked, QueueId, Subject
from disarray.web.route import API, Route, Scope, on_connection


@dataclass(frozen=True, kw_only=True)
class QueueAsked(PageAsked):
    """Which items."""

    subject_key: Subject | None = None
    status: ItemStatus | None = None


@dataclass(frozen=True, kw_only=True)
class QueueItemAsked:
    """Which item."""

    queue_id: QueueId


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/queue",
        scope=Scope.READ,
        summary="Work that waits or runs, in the order in which it was queued",
        asks=QueueAsked,
        answers=Queue,
        handle=on_connection(list_queue),
    ),
    Route(
        method="GET",
        path=f"{API}/queue/{{queue_id}}",
        scope=Scope.READ,
        summary="One item: where it stands, or what became of it within the last day",
        asks=QueueItemAsked,
        answers=QueueItemStory,
        handle=on_connection(show_queue_item),
        refusals=(404,),
    ),
)
