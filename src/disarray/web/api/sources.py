"""Table sources: how far each is read."""

from disarray.queries.sources import Sources, list_sources
from disarray.web.parameters import PageAsked
from disarray.web.route import API, Route, Scope, on_connection

ROUTES = (
    Route(
        method="GET",
        path=f"{API}/sources",
        scope=Scope.READ,
        summary="Table sources: how far each is read, what it took, and what went wrong last",
        asks=PageAsked,
        answers=Sources,
        handle=on_connection(list_sources),
    ),
)
