"""What was done: runs, and everything that happened."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from disarray.control import events, runs
from disarray.control.status import current_us
from disarray.model.segments import datetime_of
from disarray.web.parameters import Limit, Subject, Uri
from disarray.web.route import API, Call, Route, Scope
from disarray.web.schema import PLAIN, About

LATELY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class RunsAsked:
    """Which runs."""

    subject: Subject | None = None
    since: datetime | None = None
    limit: Limit = 100


@dataclass(frozen=True, kw_only=True)
class Run:
    """One pass over one subject."""

    run_id: str
    subject: str
    instance: str
    committed_at: datetime
    details: dict[str, object]


@dataclass(frozen=True)
class Runs:
    """Passes, newest first; `more` where the limit cut the list off."""

    runs: list[Run]
    more: bool


@dataclass(frozen=True, kw_only=True)
class EventsAsked:
    """Which events; those of the last day where `since` is not given."""

    since: datetime | None = None
    subject: Subject | None = None
    uri: Uri | None = None
    event: (
        Annotated[str, About(text="Such as dead_letter or lease_expired.", max_length=64, pattern=PLAIN)]
        | None
    ) = None
    limit: Limit = 100


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened; `who` is the worker, or the person who asked."""

    at: datetime
    event: str
    uri: str | None
    subject: str | None
    who: str | None
    details: dict[str, object]


@dataclass(frozen=True)
class Events:
    """What happened, newest first; `more` where the limit cut the list off."""

    events: list[Event]
    more: bool


def list_runs(call: Call, asked: RunsAsked) -> Runs:
    """Passes of workers, newest first."""
    found = runs.list_runs(
        call.connection, subject_key=asked.subject, since=asked.since, limit=asked.limit + 1
    )
    shown = [
        Run(
            run_id=str(each.run_id),
            subject=each.subject_key,
            instance=each.instance_name,
            committed_at=each.committed_at,
            details=each.metadata,
        )
        for each in found[: asked.limit]
    ]
    return Runs(shown, more=len(found) > asked.limit)


def list_events(call: Call, asked: EventsAsked) -> Events:
    """What happened, newest first."""
    found = events.list_events(
        call.connection,
        since=asked.since or datetime_of(current_us(call.connection)) - LATELY,
        subject_key=asked.subject,
        source_uri=asked.uri,
        event_type=asked.event,
        limit=asked.limit + 1,
    )
    shown = [
        Event(
            at=each.occurred_at,
            event=each.event_type,
            uri=each.source_uri,
            subject=each.subject_key,
            who=each.metadata.get("by") or each.instance_name,
            details=each.metadata,
        )
        for each in found[: asked.limit]
    ]
    return Events(shown, more=len(found) > asked.limit)


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
