"""What was in each bucket, and what was changed afterwards."""

from dataclasses import dataclass
from datetime import datetime

from disarray.model.segments import microseconds_of
from disarray.queries.restatements import Restatements, list_restatements
from disarray.queries.rollups import Buckets, query_rollup
from disarray.web.api.values import MOST_VALUES
from disarray.web.parameters import Channel, InDataset, Name, PageAsked, Subject
from disarray.web.route import API, Call, Route, Scope, on_connection


@dataclass(frozen=True, kw_only=True)
class RollupAsked:
    """Which rollup of which subject; buckets that overlap the span from `from` up to `to`, or all."""

    subject_key: Subject
    rollup: Name
    from_: datetime | None = None
    to: datetime | None = None
    channel: Channel | None = None
    dataset: InDataset | None = None


@dataclass(frozen=True, kw_only=True)
class RestatementsAsked(PageAsked):
    """Of which subject."""

    subject_key: Subject | None = None


def list_buckets(call: Call, asked: RollupAsked) -> Buckets:
    """The buckets that overlap a span and hold readings."""
    return query_rollup(
        call.connection,
        call.sources.datasets,
        subject_key=asked.subject_key,
        rollup=asked.rollup,
        from_us=None if asked.from_ is None else microseconds_of(asked.from_),
        to_us=None if asked.to is None else microseconds_of(asked.to),
        channel=asked.channel,
        dataset=asked.dataset,
        most_values=MOST_VALUES,
    ).document


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/rollups",
        scope=Scope.READ,
        summary="The buckets of a rollup that overlap a span, and whether each is final",
        asks=RollupAsked,
        answers=Buckets,
        handle=list_buckets,
        refusals=(404, 409),
    ),
    Route(
        method="GET",
        path=f"{API}/restatements",
        scope=Scope.READ,
        summary="Published values that were changed after people may have used them, newest first",
        asks=RestatementsAsked,
        answers=Restatements,
        handle=on_connection(list_restatements),
    ),
)
