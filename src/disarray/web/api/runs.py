"""What was done: runs, and everything that happened."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.queries.events import Events, list_events
from disarray.queries.runs import Runs, list_runs
from disarray.web.parameters import PageAsked, QueueId, Subject, Uri
from disarray.web.route import API, Route, Scope, on_connection
from disarray.web.schema import PLAIN, About


@dataclass(frozen=True, kw_only=True)
class RunsAsked(PageAsked):
    """Which runs."""

    subject_key: Subject | None = None
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class EventsAsked(PageAsked):
    """Which events; those of the last day where `since` is not given."""

    since: datetime | None = None
    subject_key: Subject | None = None
    source_uri: Uri | None = None
    event_type: (
        Annotated[str, About(text="Such as dead_letter or lease_expired.", max_length=64, pattern=PLAIN)]
        | None
    ) = None
    queue_id: QueueId | None = None


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/runs",
        scope=Scope.READ,
        summary="Passes of workers over subjects, newest first",
        asks=RunsAsked,
        answers=Runs,
        handle=on_connection(list_runs),
    ),
    Route(
        method="GET",
        path=f"{API}/events",
        scope=Scope.READ,
        summary="Everything that happened, newest first",
        asks=EventsAsked,
        answers=Events,
        handle=on_connection(list_events),
    ),
)
