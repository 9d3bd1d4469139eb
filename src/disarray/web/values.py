"""The value of a metric, now, at an instant, and at regular ones."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.errors import InvalidRequestError
from disarray.model.duration import parse_duration
from disarray.model.metrics import Metric
from disarray.model.segments import LAST_US, datetime_of, microseconds_of
from disarray.store.names import SubjectOf, find_metric, find_subjects
from disarray.store.values import Values as StoredValues
from disarray.store.values import series, value_at
from disarray.web.answers import instant
from disarray.web.route import API, Call, Route, Scope
from disarray.web.schema import About
from disarray.web.words import Name, Subject

# What one answer may hold: about 10 MB of JSON. Longer series are asked for in parts, or exported.
MOST_VALUES = 100_000


@dataclass(frozen=True, kw_only=True)
class ValueAsked:
    """Which metric of which subject, and when; the newest value where no instant is given."""

    subject: Subject
    metric: Name
    at: datetime | None = None
    channel: Annotated[str, About(text="One series of many; all if not given.", max_length=256)] | None = None
    dataset: Annotated[str, About(text="Where a subject has several.", max_length=256)] | None = None


@dataclass(frozen=True, kw_only=True)
class SeriesAsked:
    """Which metric of which subject, at which instants, both ends included."""

    subject: Subject
    metric: Name
    from_: datetime
    to: datetime
    every: Annotated[
        str,
        About(
            text="The step, such as 15 min or 1 d.",
            max_length=40,
            pattern=r"^[0-9]{1,9} ?(us|ms|s|min|h|d|w)$",
        ),
    ]
    channel: Annotated[str, About(text="One series of many; all if not given.", max_length=256)] | None = None
    dataset: Annotated[str, About(text="Where a subject has several.", max_length=256)] | None = None


@dataclass(frozen=True, kw_only=True)
class Value:
    """A metric after the last reading at or before an instant; not final while a repair is queued."""

    channel: str
    at: datetime
    value: int | float | None
    reading_at: datetime
    final: bool


@dataclass(frozen=True, kw_only=True)
class Values:
    """Values by channel and time, all of one moment."""

    dataset: str
    subject: str
    metric: str
    unit: str
    stale_from: datetime | None
    rebuild_pending: bool  # the numbers are those of a former definition
    values: list[Value]


def show_value(call: Call, asked: ValueAsked) -> Values:
    """The value of a metric, now or at any instant."""
    found, metric = _find(call, asked)
    answer = value_at(
        call.connection,
        call.sources.lake,
        dataset=found.dataset,
        subject_key=asked.subject,
        metric=metric,
        channel=asked.channel,
        at_us=None if asked.at is None else microseconds_of(asked.at),
    )
    return _values(found, metric, answer)


def list_series(call: Call, asked: SeriesAsked) -> Values:
    """Values at regular instants; those before the first reading of a channel are left out."""
    from_us, to_us, every_us = (
        microseconds_of(asked.from_),
        microseconds_of(asked.to),
        parse_duration(asked.every),
    )
    if every_us == 0 or not 0 <= to_us - from_us < every_us * MOST_VALUES:
        raise InvalidRequestError(
            f"a series has 1 to {MOST_VALUES} instants; let 'from' be before 'to', and 'every' longer. "
            "Nothing was read."
        )
    found, metric = _find(call, asked)
    answer = series(
        call.connection,
        call.sources.lake,
        dataset=found.dataset,
        subject_key=asked.subject,
        metric=metric,
        channel=asked.channel,
        from_us=from_us,
        to_us=to_us,
        every_us=every_us,
    )
    if len(answer.values) > MOST_VALUES:
        raise InvalidRequestError(
            f"this has {len(answer.values)} values, {MOST_VALUES} are answered at once; choose a channel."
        )
    return _values(found, metric, answer)


def _find(call: Call, asked: ValueAsked | SeriesAsked) -> tuple[SubjectOf, Metric]:
    subjects = find_subjects(
        call.connection, call.sources.datasets, subject_key=asked.subject, dataset=asked.dataset
    )
    return find_metric(subjects, asked.metric)


def _values(found: SubjectOf, metric: Metric, answer: StoredValues) -> Values:
    return Values(
        dataset=found.dataset.name,
        subject=found.subject_key,
        metric=metric.name,
        unit=metric.unit,
        stale_from=instant(answer.stale_from_us),
        rebuild_pending=found.is_rebuild_pending,
        values=[
            Value(
                channel=each.channel,
                # Where the newest is asked for, the instant is its reading's.
                at=datetime_of(each.reading_us if each.at_us == LAST_US else each.at_us),
                value=each.number,
                reading_at=datetime_of(each.reading_us),
                final=each.is_final,
            )
            for each in answer.values
        ],
    )


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/values",
        scope=Scope.READ,
        summary="The value of a metric, now or at any instant, and whether it is final",
        asks=ValueAsked,
        answers=Values,
        handle=show_value,
        refusals=(404, 409),
    ),
    Route(
        method="GET",
        path=f"{API}/series",
        scope=Scope.READ,
        summary="Values of a metric at regular instants: each the last one at or before it",
        asks=SeriesAsked,
        answers=Values,
        handle=list_series,
        refusals=(404, 409),
    ),
)
