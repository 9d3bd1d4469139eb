"""Backfills: how far they are, what verification found, and what is decided about them.

None is started here: its SQL would run with the login of this server, and of workers, of which a token has no more
than the functions (docs/security.md).
"""

from dataclasses import dataclass
from typing import Annotated

from disarray.control import backfills
from disarray.control.backfills import BackfillDecision, BackfillState
from disarray.queries.backfills import BackfillDetails, Backfills, list_backfills, show_backfill
from disarray.web.parameters import PageAsked, Reason
from disarray.web.route import API, Call, Route, Scope, on_connection
from disarray.web.schema import About

JobId = Annotated[int, About(text="The number of a backfill.", minimum=1, maximum=2**63 - 1)]


@dataclass(frozen=True, kw_only=True)
class BackfillAsked:
    """Which job."""

    job_id: JobId


@dataclass(frozen=True)
class BackfillOrder:
    """Which job, and why."""

    job_id: JobId
    reason: Reason


@dataclass(frozen=True, kw_only=True)
class BackfillPaceAsked:
    """How fast which job may go, over all workers, and why."""

    job_id: JobId
    rate_limit: Annotated[
        float | None,
        About(text="Rows a second, more than 0; null: no limit.", minimum=0, maximum=1_000_000_000),
    ]
    max_concurrency: Annotated[
        int | None, About(text="Chunks at once; as it is if not given.", minimum=1, maximum=1000)
    ] = None
    reason: Reason


@dataclass(frozen=True)
class BackfillStanding:
    """How a job stands now."""

    job_id: int
    state: BackfillState


@dataclass(frozen=True, kw_only=True)
class BackfillPace:
    """How fast a job may go from now on: rows a second, null without a limit, and chunks at once."""

    job_id: int
    rate_limit: float | None
    max_concurrency: int


def pause_backfill(call: Call, asked: BackfillOrder) -> BackfillStanding:
    """Let nobody claim chunks of a job until it is resumed."""
    return _decide(call, asked, BackfillDecision.PAUSED)


def resume_backfill(call: Call, asked: BackfillOrder) -> BackfillStanding:
    """Let workers go on with a job, also with chunks that were given up."""
    return _decide(call, asked, BackfillDecision.RESUMED)


def cancel_backfill(call: Call, asked: BackfillOrder) -> BackfillStanding:
    """Give a job up for good."""
    return _decide(call, asked, BackfillDecision.CANCELLED)


def change_backfill_rate(call: Call, asked: BackfillPaceAsked) -> BackfillPace:
    """Change how fast a job may go, while it runs."""
    connection, job_id = call.connection, asked.job_id
    chunks = asked.max_concurrency or show_backfill(connection, job_id=job_id).max_concurrency
    backfills.set_backfill_pace(
        connection,
        job_id,
        rate_limit=asked.rate_limit,
        max_concurrency=chunks,
        reason=asked.reason,
        by=call.who,
    )
    return BackfillPace(job_id=job_id, rate_limit=asked.rate_limit, max_concurrency=chunks)


def _decide(call: Call, asked: BackfillOrder, decision: BackfillDecision) -> BackfillStanding:
    state = backfills.decide_backfill(
        call.connection, asked.job_id, decision, reason=asked.reason, by=call.who
    )
    return BackfillStanding(asked.job_id, state)


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
        method="POST",
        path=f"{API}/backfills/pause",
        scope=Scope.OPERATE,
        summary="Claim no more chunks of a job until it is resumed; those at work end as they would have",
        asks=BackfillOrder,
        answers=BackfillStanding,
        handle=pause_backfill,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/backfills/resume",
        scope=Scope.OPERATE,
        summary="Let workers go on with a job that was paused, has stopped, or has dead chunks, which are tried again",
        asks=BackfillOrder,
        answers=BackfillStanding,
        followed_at=lambda answer: f"{API}/backfills/{answer['job_id']}",
        handle=resume_backfill,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/backfills/cancel",
        scope=Scope.OPERATE,
        summary="Give a job up for good; chunks that are done stay done",
        asks=BackfillOrder,
        answers=BackfillStanding,
        handle=cancel_backfill,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/backfills/rate",
        scope=Scope.OPERATE,
        summary="Change how fast a job may go, while it runs",
        asks=BackfillPaceAsked,
        answers=BackfillPace,
        handle=change_backfill_rate,
        refusals=(404,),
    ),
    # Behind the fixed paths, which it matches too: the header Allow is that of the first.
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
