"""Materialized views that were applied: how far each has come, and its refreshes."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from disarray.control import views
from disarray.control.connections import Connection
from disarray.errors import UnknownNameError
from disarray.model.description.spec_table import near_miss
from disarray.model.documents import document_of
from disarray.queries.pages import Order

ORDER = Order("refreshes of a view", {"refresh_id": int})


@dataclass(frozen=True, kw_only=True)
class View:
    """A view. `state` is failing, refreshing, stale or fresh; the lag is what was committed and is not in it."""

    name: str
    schema_name: str
    unique_key: list[str]
    depends_on: list[str]
    at_most_every_seconds: float
    timeout_seconds: int
    state: str
    lag_commits: int
    lag_seconds: float
    refreshed_at: datetime | None
    commit_position: int | None
    due_at: datetime
    held_by: str | None
    failure_count: int
    last_error: str | None
    last_error_at: datetime | None
    applied_at: datetime
    applied_by: str


@dataclass(frozen=True)
class Views:
    """All views that were applied, by name."""

    views: list[View]


@dataclass(frozen=True, kw_only=True)
class ViewRefresh:
    """One refresh; with an error, the view stayed as it was."""

    refreshed_at: datetime
    commit_position: int | None
    seconds: float
    error: str | None


@dataclass(frozen=True, kw_only=True)
class ViewStory:
    """A view with its query as it was applied, and its refreshes, newest first; `next` is the cursor of older ones."""

    view: View
    query: str
    refreshes: list[ViewRefresh]
    next: str | None


def list_views(connection: Connection) -> Views:
    """Every view that was applied."""
    return Views([_view(each) for each in views.list_views(connection)])


def show_view(connection: Connection, name: str, *, limit: int = 20, after: str | None = None) -> ViewStory:
    """One view with its query and its last refreshes."""
    known = {each.name: each for each in views.list_views(connection)}
    if name not in known:
        raise UnknownNameError(f"no view '{name}' was applied; {near_miss(name, list(known))}")
    refreshes, following = ORDER.page(
        partial(views.list_view_refreshes, connection, name), after=after, limit=limit
    )
    return ViewStory(
        view=_view(known[name]),
        query=known[name].definition,
        refreshes=[document_of(ViewRefresh, each) for each in refreshes],
        next=following,
    )


def _view(record: views.ViewRecord) -> View:
    return document_of(
        View,
        record,
        unique_key=list(record.unique_key),
        depends_on=list(record.depends_on),
        at_most_every_seconds=record.at_most_every.total_seconds(),
        state=_state(record),
    )


def _state(record: views.ViewRecord) -> str:
    if record.last_error is not None:
        return "failing"
    if record.held_by is not None:
        return "refreshing"
    return "stale" if record.is_stale else "fresh"
