"""Backfills: how far they are, and what verification found."""

from dataclasses import dataclass
from typing import Annotated

from disarray.queries.backfills import BackfillDetails, Backfills, list_backfills, show_backfill
from disarray.web.parameters import PageAsked
from disarray.web.route import API, Route, Scope, on_connection
from disarray.web.schema import About


@dataclass(frozen=True, kw_only=True)
class BackfillAsked:
    """Which job."""

    job_id: Annotated[int, About(text="The number of a backfill.", minimum=1, maximum=2**63 - 1)]


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/backfills",
        scope=Scope.READ,
        summary="Backfills, the newest first, with their progress and what holds them back",
        asks=PageAsked,
        answers=Backfills,
        handle=on_connection(list_backfills),
    ),
    Route(
        method="GET",
        path=f"{API}/backfills/{{job_id}}",
        scope=Scope.READ,
        summary="One backfill with its description, its dead chunks and its verdict",
        asks=BackfillAsked,
        answers=BackfillDetails,
        handle=on_connection(show_backfill),
        refusals=(404,),
    ),
)
