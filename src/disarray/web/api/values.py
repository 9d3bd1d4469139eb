"""The value of a metric, now, at an instant, and at regular ones."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.model.duration import parse_duration
from disarray.model.segments import microseconds_of
from disarray.queries.series import query_series
from disarray.queries.values import Values, query_value
from disarray.web.parameters import Channel, InDataset, Name, Subject
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
        path=f"{API}/series",
        scope=Scope.READ,
        summary="Values of a metric at regular instants: each the last one at or before it",
        asks=SeriesAsked,
        answers=Values,
        handle=list_series,
        refusals=(404, 409),
    ),
)
