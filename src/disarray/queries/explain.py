"""Where the value of a metric comes from, as it is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from disarray.control.connections import Connection
from disarray.model.description.dataset import Dataset
from disarray.model.description.metrics import Metric
from disarray.model.segments import datetime_of
from disarray.queries.explanations import Explanation, explain
from disarray.queries.names import SubjectOf, find_metric, find_subjects
from disarray.queries.restatements import Restatement
from disarray.store.lake import Lake


@dataclass(frozen=True, kw_only=True)
class ExplainedValue:
    """A value and what made it: `base` was before its segment, `local` is within it; `base` is null after a reset.

    `segment` has the run that scanned it, its files and those before it. `restatements` changed this value, newest
    first.
    """

    channel: str
    value: int | float | None
    reading_at: datetime
    final: bool
    base: int | float | None
    local: int | float | None
    segment: dict[str, object]
    restatements: list[Restatement]


@dataclass(frozen=True, kw_only=True)
class Explanations:
    """Where the values of a metric come from, by channel."""

    dataset: str
    subject_key: str
    metric: str
    unit: str
    explanations: list[ExplainedValue]


@dataclass(frozen=True)
class ExplanationAnswer:
    """The answer, and what it is about."""

    subject: SubjectOf
    metric: Metric
    explanations: list[Explanation]
    document: Explanations


def query_explanation(
    connection: Connection,
    lake: Lake,
    datasets: Mapping[str, Dataset],
    *,
    subject_key: str,
    metric: str,
    at_us: int | None = None,
    channel: str | None = None,
    dataset: str | None = None,
) -> ExplanationAnswer:
    """The value at an instant, or the newest, for each channel, with its origin."""
    subjects = find_subjects(connection, datasets, subject_key=subject_key, dataset=dataset)
    found, chosen = find_metric(subjects, metric)
    explained = explain(
        connection,
        lake,
        dataset=found.dataset,
        subject_key=subject_key,
        metric=chosen,
        channel=channel,
        at_us=at_us,
    )
    document = Explanations(
        dataset=found.dataset.name,
        subject_key=subject_key,
        metric=chosen.name,
        unit=chosen.unit,
        explanations=[
            ExplainedValue(
                channel=each.value.channel,
                value=each.value.number,
                reading_at=datetime_of(each.value.reading_us),
                final=each.value.is_final,
                base=each.base,
                local=each.local,
                segment=each.segment,
                restatements=list(each.restatements),
            )
            for each in explained
        ],
    )
    return ExplanationAnswer(found, chosen, explained, document)
