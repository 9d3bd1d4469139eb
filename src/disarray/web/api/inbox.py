"""The inbox of events: where programs put what they have to report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control import raw_events
from disarray.control.raw_events import MOST_BYTES
from disarray.web.event_body import JSON_LINES, split_events
from disarray.web.route import API, JSON, Body, Call, Route, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class EventsSent:
    """Events for the inbox of a dataset, each as it was written."""

    dataset: str
    events: list[str]


@dataclass(frozen=True)
class EventRejected:
    """An event that was not stored, by its index from 0 among those that were sent."""

    index: int
    reason: str


@dataclass(frozen=True)
class EventsRecorded:
    """What became of the events: seen = new + duplicate + rejected. What is new is stored."""

    seen: int
    new: int
    duplicate: int
    rejected: list[EventRejected]


def record_events(call: Call, asked: EventsSent) -> EventsRecorded:
    """Put events into the inbox."""
    recorded = raw_events.record_events(call.connection, asked.dataset, asked.events)
    return EventsRecorded(
        recorded.seen,
        recorded.new,
        recorded.duplicate,
        [EventRejected(each.index, each.reason) for each in recorded.rejected],
    )


def _read_events(path: Mapping[str, str], media_type: str, body: bytes) -> EventsSent:
    return EventsSent(path["dataset"], split_events(media_type, body))


_EXAMPLE = {"stroke": "a1", "tool": "PRESS2", "at": "2026-10-02T08:00:00Z", "force_kn": 118.5}

ROUTES = (
    Route(
        method="POST",
        path=f"{API}/events/{{dataset}}",
        scope=Scope.PRODUCE,
        summary="Put events into the inbox of a dataset: a JSON array or JSON lines, at most 10,000 events and 5 MiB",
        asks=EventsSent,
        answers=EventsRecorded,
        handle=record_events,
        body=Body(
            media_types={
                JSON: (list[dict[str, object]], [_EXAMPLE]),
                JSON_LINES: (str, json.dumps(_EXAMPLE) + "\n"),
            },
            most_bytes=MOST_BYTES,
            read=_read_events,
        ),
        refusals=(404,),
    ),
)
