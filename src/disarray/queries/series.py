"""The values of a metric at regular instants."""

from collections.abc import Mapping

from disarray.control.connections import Connection
from disarray.model.description.dataset import Dataset
from disarray.model.duration import DAY
from disarray.model.segments import FIRST_US, LAST_US
from disarray.queries import metric_values
from disarray.queries.names import find_metric, find_subjects
from disarray.queries.values import MetricAnswer, values_document
from disarray.store.lake import Lake


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
    most_values: int = metric_values.MOST_VALUES,
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
    answer = metric_values.series(
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
    return MetricAnswer(found, chosen, values_document(found, chosen, answer))
