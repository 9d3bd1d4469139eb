"""What was done: runs, and everything that happened."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.queries import events, runs
from disarray.queries.events import Events
from disarray.queries.runs import Runs
from disarray.web.parameters import Limit, Subject, Uri
from disarray.web.route import API, Call, Route, Scope
from disarray.web.schema import PLAIN, About


@dataclass(frozen=True, kw_only=True)
class RunsAsked:
    """Which runs."""

    subject_key: Subject | None = None
    since: datetime | None = None
    limit: Limit = 100


@dataclass(frozen=True, kw_only=True)
class EventsAsked:
    """Which events; those of the last day where `since` is not given."""

    since: datetime | None = None
    subject_key: Subject | None = None
    source_uri: Uri | None = None
    event_type: (
        Annotated[str, About(text="Such as dead_letter or lease_expired.", max_length=64, pattern=PLAIN)]
        | None
    ) = None
    limit: Limit = 100


def list_runs(call: Call, asked: RunsAsked) -> Runs:
    """Passes of workers, newest first."""
    return runs.list_runs(
        call.connection, subject_key=asked.subject_key, since=asked.since, limit=asked.limit
    )


def list_events(call: Call, asked: EventsAsked) -> Events:
    """What happened, newest first."""
    return events.list_events(
        call.connection,
        since=asked.since,
        subject_key=asked.subject_key,
        source_uri=asked.source_uri,
        event_type=asked.event_type,
        limit=asked.limit,
    )


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/runs",
        scope=Scope.READ,
        summary="Passes of workers over subjects, newest first",
        asks=RunsAsked,
        answers=Runs,
        handle=list_runs,
    ),
    Route(
        method="GET",
        path=f"{API}/events",
        scope=Scope.READ,
        summary="Everything that happened, newest first",
        asks=EventsAsked,
        answers=Events,
        handle=list_events,
    ),
)
