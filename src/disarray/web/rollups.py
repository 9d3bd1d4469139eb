"""What was in each bucket, and what was changed afterwards."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.control.values import list_restatements
from disarray.model.segments import datetime_of, microseconds_of
from disarray.store.names import find_rollup, find_subjects
from disarray.store.rollups import rollup
from disarray.web.answers import instant
from disarray.web.route import API, Call, Route, Scope
from disarray.web.schema import About
from disarray.web.words import Limit, Name, Subject


@dataclass(frozen=True, kw_only=True)
class RollupAsked:
    """Which rollup of which subject; buckets that overlap the span from `from` up to `to`."""

    subject: Subject
    rollup: Name
    from_: datetime
    to: datetime
    dataset: Annotated[str, About(text="Where a subject has several.", max_length=256)] | None = None


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A number for each aggregate, null where it had no points."""

    channel: str
    start: datetime
    end: datetime
    label: str
    values: dict[str, int | float | None]
    final: bool


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Buckets by channel and time, all of one moment. The newest may still be filling."""

    dataset: str
    subject: str
    rollup: str
    stale_from: datetime | None
    rebuild_pending: bool  # the numbers are those of a former definition
    buckets: list[Bucket]


@dataclass(frozen=True, kw_only=True)
class RestatementsAsked:
    """Of which subject."""

    subject: Subject | None = None
    limit: Limit = 100


@dataclass(frozen=True, kw_only=True)
class Restatement:
    """A total that was changed after people may have used it."""

    dataset: str
    subject: str
    metric: str
    channel: str
    changed_from: datetime
    old: int | float | None
    new: int | float | None
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
    subjects = find_subjects(
        call.connection, call.sources.datasets, subject_key=asked.subject, dataset=asked.dataset
    )
    found, chosen = find_rollup(subjects, asked.rollup)
    answer = rollup(
        call.connection,
        dataset=found.dataset,
        subject_key=asked.subject,
        rollup=chosen,
        from_us=microseconds_of(asked.from_),
        to_us=microseconds_of(asked.to),
    )
    return Buckets(
        dataset=found.dataset.name,
        subject=asked.subject,
        rollup=asked.rollup,
        stale_from=instant(answer.stale_from_us),
        rebuild_pending=found.is_rebuild_pending,
        buckets=[
            Bucket(
                channel=each.channel,
                start=datetime_of(each.start_us),
                end=datetime_of(each.end_us),
                label=each.label,
                values=dict(each.numbers),
                final=each.is_final,
            )
            for each in answer.buckets
        ],
    )


def list_restated(call: Call, asked: RestatementsAsked) -> Restatements:
    """Totals that were changed after people may have used them, newest first."""
    found = list_restatements(call.connection, subject_key=asked.subject, limit=asked.limit + 1)
    shown = [
        Restatement(
            dataset=each.dataset,
            subject=each.subject_key,
            metric=each.metric,
            channel=each.channel,
            changed_from=each.changed_from,
            old=each.old,
            new=each.new,
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
        summary="Totals that were changed after people may have used them, newest first",
        asks=RestatementsAsked,
        answers=Restatements,
        handle=list_restated,
    ),
)
