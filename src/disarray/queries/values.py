"""The value of a metric at an instant."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from disarray.control.connections import Connection
from disarray.model.description.dataset import Dataset
from disarray.model.description.metrics import Metric
from disarray.model.segments import LAST_US, datetime_of, instant_of
from disarray.queries import metric_values
from disarray.queries.names import SubjectOf, find_metric, find_subjects
from disarray.store.lake import Lake


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
    subject_key: str
    metric: str
    unit: str
    stale_from: datetime | None
    rebuild_pending: bool  # the numbers are those of a former definition
    values: list[Value]


@dataclass(frozen=True)
class MetricAnswer:
    """The answer, and what it is about."""

    subject: SubjectOf
    metric: Metric
    document: Values


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
    answer = metric_values.value_at(
        connection,
        lake,
        dataset=found.dataset,
        subject_key=subject_key,
        metric=chosen,
        channel=channel,
        at_us=at_us,
    )
    return MetricAnswer(found, chosen, values_document(found, chosen, answer))


def values_document(found: SubjectOf, metric: Metric, answer: metric_values.Values) -> Values:
    """What was found, as it is told."""
    return Values(
        dataset=found.dataset.name,
        subject_key=found.subject_key,
        metric=metric.name,
        unit=metric.unit,
        stale_from=instant_of(answer.stale_from_us),
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
