"""What readers ask, answered once for everybody: the command line, its JSON and REST say the same of a number."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from disarray.control.connections import Connection
from disarray.model.description.dataset import Dataset
from disarray.model.description.metrics import Metric
from disarray.model.description.rollups import Rollup
from disarray.model.duration import DAY
from disarray.model.segments import FIRST_US, LAST_US, datetime_of
from disarray.store import rollups, values
from disarray.store.lake import Lake
from disarray.store.names import SubjectOf, find_metric, find_rollup, find_subjects


@dataclass(frozen=True, kw_only=True)
class Value:
    """A metric after the last reading at or before an instant; not final while a repair is queued.

    Where the readings around the instant were dropped (`retain`), nobody knows the value any more: it is null and not
    final, and `reading_at` is the next instant at which it is known.
    """

    channel: str
    at: datetime
    value: int | float | None
    reading_at: datetime
    final: bool
    readings_dropped: bool


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


@dataclass(frozen=True)
class MetricAnswer:
    """The answer, and what it is about."""

    subject: SubjectOf
    metric: Metric
    document: Values


@dataclass(frozen=True)
class RollupAnswer:
    """The answer, and what it is about."""

    subject: SubjectOf
    rollup: Rollup
    document: Buckets


def query_value(
    connection: Connection,
    lake: Lake,
    datasets: Mapping[str, Dataset],
    *,
    subject_key: str,
    metric: str,
    at_us: int | None = None,
    channel: str | None = None,
    dataset: str | None = None,
) -> MetricAnswer:
    """The value of a metric at an instant, or the newest."""
    subjects = find_subjects(connection, datasets, subject_key=subject_key, dataset=dataset)
    found, chosen = find_metric(subjects, metric)
    answer = values.value_at(
        connection,
        lake,
        dataset=found.dataset,
        subject_key=subject_key,
        metric=chosen,
        channel=channel,
        at_us=at_us,
    )
    return MetricAnswer(found, chosen, _values(found, chosen, answer))


def query_series(
    connection: Connection,
    lake: Lake,
    datasets: Mapping[str, Dataset],
    *,
    subject_key: str,
    metric: str,
    every_us: int,
    from_us: int | None = None,
    to_us: int | None = None,
    channel: str | None = None,
    dataset: str | None = None,
    most_values: int = values.MOST_VALUES,
) -> MetricAnswer:
    """Values at regular instants, each as `query_value` tells it; where an end is not given, up to all readings."""
    subjects = find_subjects(connection, datasets, subject_key=subject_key, dataset=dataset)
    found, chosen = find_metric(subjects, metric)
    step_us = max(every_us, 1)  # a step of nothing is refused below
    if from_us is None:
        # Steps from midnight of the first day on, so that an hourly series is of full hours.
        midnight_us = found.first_us // DAY * DAY
        from_us = max(midnight_us + (found.first_us - midnight_us) // step_us * step_us, FIRST_US)
        if to_us is not None:
            from_us = min(from_us, to_us)  # an end before all readings is no mistake: nothing had been read
    if to_us is None:
        # The first instant at which all readings have been.
        to_us = min(from_us + max(-(-(found.last_us - from_us) // step_us), 0) * step_us, LAST_US)
    answer = values.series(
        connection,
        lake,
        dataset=found.dataset,
        subject_key=subject_key,
        metric=chosen,
        channel=channel,
        from_us=from_us,
        to_us=to_us,
        every_us=every_us,
        most_values=most_values,
    )
    return MetricAnswer(found, chosen, _values(found, chosen, answer))


def query_rollup(
    connection: Connection,
    datasets: Mapping[str, Dataset],
    *,
    subject_key: str,
    rollup: str,
    from_us: int | None = None,
    to_us: int | None = None,
    dataset: str | None = None,
    most_values: int | None = None,
) -> RollupAnswer:
    """The buckets that overlap a span and hold readings; where an end is not given, up to all readings."""
    subjects = find_subjects(connection, datasets, subject_key=subject_key, dataset=dataset)
    found, chosen = find_rollup(subjects, rollup)
    answer = rollups.rollup(
        connection,
        dataset=found.dataset,
        subject_key=subject_key,
        rollup=chosen,
        from_us=FIRST_US if from_us is None else from_us,
        to_us=LAST_US if to_us is None else to_us,
        most_values=most_values,
    )
    buckets = Buckets(
        dataset=found.dataset.name,
        subject=subject_key,
        rollup=chosen.name,
        stale_from=_instant(answer.stale_from_us),
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
    return RollupAnswer(found, chosen, buckets)


def _values(found: SubjectOf, metric: Metric, answer: values.Values) -> Values:
    return Values(
        dataset=found.dataset.name,
        subject=found.subject_key,
        metric=metric.name,
        unit=metric.unit,
        stale_from=_instant(answer.stale_from_us),
        rebuild_pending=found.is_rebuild_pending,
        values=[
            Value(
                channel=each.channel,
                # Where the newest is asked for, the instant is its reading's.
                at=datetime_of(each.reading_us if each.at_us == LAST_US else each.at_us),
                value=each.number,
                reading_at=datetime_of(each.reading_us),
                final=each.is_final,
                readings_dropped=each.is_dropped,
            )
            for each in answer.values
        ],
    )


def _instant(us: int | None) -> datetime | None:
    return None if us is None else datetime_of(us)
