"""Metrics and rollups as they are defined."""

from collections.abc import Mapping
from dataclasses import dataclass

from disarray.model.description.dataset import Dataset
from disarray.model.expression.canonical_text import canonical_text


@dataclass(frozen=True, kw_only=True)
class MetricDefinition:
    """One metric of a dataset; `input` and `where` are expressions over its columns."""

    dataset: str
    metric: str
    kind: str
    type: str
    unit: str
    input: str | None
    where: str | None


def list_metrics(datasets: Mapping[str, Dataset], *, dataset: str | None = None) -> list[MetricDefinition]:
    """Every metric, by dataset."""
    return [
        MetricDefinition(
            dataset=name,
            metric=metric.name,
            kind=metric.kind.value,
            type=metric.type.value,
            unit=metric.unit,
            input=None if metric.input is None else canonical_text(metric.input),
            where=None if metric.where is None else canonical_text(metric.where),
        )
        for name, each in sorted(datasets.items())
        if dataset in (None, name)
        for metric in each.metrics
    ]
