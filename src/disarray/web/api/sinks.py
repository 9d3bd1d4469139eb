"""Destinations: how far each has come."""

from dataclasses import dataclass

from disarray.queries.sinks import Sinks, SinkSubjects, list_sinks, show_sink
from disarray.web.parameters import PageAsked
from disarray.web.route import API, Route, Scope, on_connection


@dataclass(frozen=True, kw_only=True)
class SinksAsked:
    """All of them."""


@dataclass(frozen=True, kw_only=True)
class SinkAsked(PageAsked):
    """Which destination, by its name in disarray.toml."""

    name: str


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/sinks",
        scope=Scope.READ,
        summary="Destinations: their state, and how far they are behind",
        asks=SinksAsked,
        answers=Sinks,
        handle=on_connection(list_sinks),
    ),
    Route(
        method="GET",
        path=f"{API}/sinks/{{name}}",
        scope=Scope.READ,
        summary="One destination with how far each of its subjects has come",
        asks=SinkAsked,
        answers=SinkSubjects,
        handle=on_connection(show_sink),
        refusals=(404,),
    ),
)
