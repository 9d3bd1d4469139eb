"""Materialized views: how far each has come."""

from dataclasses import dataclass

from disarray.queries.views import Views, ViewStory, list_views, show_view
from disarray.web.parameters import PageAsked
from disarray.web.route import API, Route, Scope, on_connection


@dataclass(frozen=True, kw_only=True)
class ViewsAsked:
    """All of them."""


@dataclass(frozen=True, kw_only=True)
class ViewAsked(PageAsked):
    """Which view, by its name in disarray.toml."""

    name: str


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/views",
        scope=Scope.READ,
        summary="Materialized views: their state, and how far they are behind",
        asks=ViewsAsked,
        answers=Views,
        handle=on_connection(list_views),
    ),
    Route(
        method="GET",
        path=f"{API}/views/{{name}}",
        scope=Scope.READ,
        summary="One view with its query and its last refreshes",
        asks=ViewAsked,
        answers=ViewStory,
        handle=on_connection(show_view),
        refusals=(404,),
    ),
)
