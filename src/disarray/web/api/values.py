"""The value of a metric, now, at an instant, and at regular ones."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.model.duration import parse_duration
from disarray.model.segments import microseconds_of
from disarray.queries.explain import Explanations, query_explanation
from disarray.queries.series import query_series
from disarray.queries.values import Values, query_value
from disarray.queries.values_of_subjects import ValuesOfSubjects, query_values
from disarray.web.parameters import Channel, InDataset, Name, PageAsked, Subject
from disarray.web.route import API, Call, Route, Scope
from disarray.web.schema import About

# What one answer may hold: about 10 MB of JSON. Longer series are asked for in parts, or exported.
MOST_VALUES = 100_000


@dataclass(frozen=True, kw_only=True)
class ValueAsked:
    """Which metric of which subject, and when; the newest value where no instant is given."""

    subject_key: Subject
    metric: Name
    at: datetime | None = None
    channel: Channel | None = None
    dataset: InDataset | None = None


@dataclass(frozen=True, kw_only=True)
class ValuesOfSubjectsAsked(PageAsked):
    """Which metric, of which subjects or of all, and when; the newest values where no instant is given."""

    metric: Name
    subject_keys: (
        Annotated[
            list[Subject],
            About(text="Subjects, the name once for each; all if not given.", min_length=1, max_length=1000),
        ]
        | None
    ) = None
    at: datetime | None = None
    dataset: InDataset | None = None


@dataclass(frozen=True, kw_only=True)
class SeriesAsked:
    """Which metric of which subject, at which instants, both ends included; of all readings where none is given."""

    subject_key: Subject
    metric: Name
    from_: datetime | None = None
    to: datetime | None = None
    every: Annotated[
        str,
        About(
            text="The step, such as 15 min or 1 d.",
            max_length=40,
            pattern=r"^[0-9]{1,9} ?(us|ms|s|min|h|d|w)$",
        ),
    ]
    channel: Channel | None = None
    dataset: InDataset | None = None


def show_value(call: Call, asked: ValueAsked) -> Values:
    """The value of a metric, now or at any instant."""
    return query_value(
        call.connection,
        call.sources.lake,
        call.sources.datasets,
        subject_key=asked.subject_key,
        metric=asked.metric,
        at_us=None if asked.at is None else microseconds_of(asked.at),
        channel=asked.channel,
        dataset=asked.dataset,
    ).document


def list_values_of_subjects(call: Call, asked: ValuesOfSubjectsAsked) -> ValuesOfSubjects:
    """The value of a metric for many subjects."""
    return query_values(
        call.connection,
        call.sources.lake,
        call.sources.datasets,
        metric=asked.metric,
        subject_keys=asked.subject_keys,
        at_us=None if asked.at is None else microseconds_of(asked.at),
        dataset=asked.dataset,
        limit=asked.limit,
        after=asked.after,
    )


def explain_value(call: Call, asked: ValueAsked) -> Explanations:
    """Where a value comes from."""
    return query_explanation(
        call.connection,
        call.sources.lake,
        call.sources.datasets,
        subject_key=asked.subject_key,
        metric=asked.metric,
        at_us=None if asked.at is None else microseconds_of(asked.at),
        channel=asked.channel,
        dataset=asked.dataset,
    ).document


def list_series(call: Call, asked: SeriesAsked) -> Values:
    """Values at regular instants; those before the first reading of a channel are left out."""
    return query_series(
        call.connection,
        call.sources.lake,
        call.sources.datasets,
        subject_key=asked.subject_key,
        metric=asked.metric,
        every_us=parse_duration(asked.every),
        from_us=None if asked.from_ is None else microseconds_of(asked.from_),
        to_us=None if asked.to is None else microseconds_of(asked.to),
        channel=asked.channel,
        dataset=asked.dataset,
        most_values=MOST_VALUES,
    ).document


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
        path=f"{API}/values/subjects",
        scope=Scope.READ,
        summary="The value of a metric of many subjects, now or at any instant",
        asks=ValuesOfSubjectsAsked,
        answers=ValuesOfSubjects,
        handle=list_values_of_subjects,
        refusals=(404, 409),
    ),
    Route(
        method="GET",
        path=f"{API}/explain",
        scope=Scope.READ,
        summary="Where a value comes from: its segment, the files in it and before it, and what restated it",
        asks=ValueAsked,
        answers=Explanations,
        handle=explain_value,
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
