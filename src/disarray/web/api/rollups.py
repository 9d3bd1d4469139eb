"""What was in each bucket, and what was changed afterwards."""

from dataclasses import dataclass
from datetime import datetime

from disarray.control.values import list_restatements
from disarray.model.segments import microseconds_of
from disarray.store.queries import Buckets, query_rollup
from disarray.web.api.values import MOST_VALUES
from disarray.web.parameters import InDataset, Limit, Name, Subject
from disarray.web.route import API, Call, Route, Scope


@dataclass(frozen=True, kw_only=True)
class RollupAsked:
    """Which rollup of which subject; buckets that overlap the span from `from` up to `to`, or all."""

    subject: Subject
    rollup: Name
    from_: datetime | None = None
    to: datetime | None = None
    dataset: InDataset | None = None


@dataclass(frozen=True, kw_only=True)
class RestatementsAsked:
    """Of which subject."""

    subject: Subject | None = None
    limit: Limit = 100


@dataclass(frozen=True, kw_only=True)
class Restatement:
    """Published values that were changed after people may have used them, from one reading to another.

    `old` and `new` are those at `changed_to`, which is null in entries from before there were spans: there they are the
    newest totals. `delta` was added to every value, of floats up to rounding, and is null where it was not one number;
    all changed by `least` to `greatest`. `new` is null where there is no value any more.
    """

    dataset: str
    subject: str
    metric: str
    channel: str
    changed_from: datetime
    changed_to: datetime | None
    first_old: int | float | None
    first_new: int | float | None
    old: int | float | None
    new: int | float | None
    delta: int | float | None
    least: int | float | None
    greatest: int | float | None
    uris: list[str]
    redefined: bool  # because the definition of the dataset changed
    restated_at: datetime


@dataclass(frozen=True)
class Restatements:
    """What was restated, newest first; `more` where the limit cut the list off."""

    restatements: list[Restatement]
    more: bool


def list_buckets(call: Call, asked: RollupAsked) -> Buckets:
    """The buckets that overlap a span and hold readings."""
    return query_rollup(
        call.connection,
        call.sources.datasets,
        subject_key=asked.subject,
        rollup=asked.rollup,
        from_us=None if asked.from_ is None else microseconds_of(asked.from_),
        to_us=None if asked.to is None else microseconds_of(asked.to),
        dataset=asked.dataset,
        most_values=MOST_VALUES,
    ).document


def list_restated(call: Call, asked: RestatementsAsked) -> Restatements:
    """Published values that were changed after people may have used them, newest first."""
    found = list_restatements(call.connection, subject_key=asked.subject, limit=asked.limit + 1)
    shown = [
        Restatement(
            dataset=each.dataset,
            subject=each.subject_key,
            metric=each.metric,
            channel=each.channel,
            changed_from=each.changed_from,
            changed_to=each.changed_to,
            first_old=each.first_old,
            first_new=each.first_new,
            old=each.old,
            new=each.new,
            delta=each.delta,
            least=each.least,
            greatest=each.greatest,
            uris=list(each.source_uris),
            redefined=each.is_redefined,
            restated_at=each.restated_at,
        )
        for each in found[: asked.limit]
    ]
    return Restatements(shown, more=len(found) > asked.limit)


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
        handle=list_restated,
    ),
)
