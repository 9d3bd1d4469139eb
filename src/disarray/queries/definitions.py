"""Metrics and rollups as they are defined."""

from collections.abc import Mapping
from dataclasses import dataclass

from disarray.model.description.dataset import Dataset
from disarray.model.expression.canonical_text import canonical_text
from disarray.model.expression.tree import Expression
from disarray.queries.pages import Order

ORDER_OF_METRICS = Order("metrics defined", {"dataset": str, "metric": str})
ORDER_OF_ROLLUPS = Order("rollups defined", {"dataset": str, "rollup": str})


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


@dataclass(frozen=True)
class MetricsDefined:
    """Metrics by dataset; `next` is the cursor of the next page, null on the last."""

    metrics: list[MetricDefinition]
    next: str | None


@dataclass(frozen=True, kw_only=True)
class AggregateDefinition:
    """One number of each bucket; `input` and `where` are expressions over the columns of the dataset."""

    aggregate: str
    function: str
    input: str | None
    where: str | None


@dataclass(frozen=True, kw_only=True)
class RollupDefinition:
    """One rollup of a dataset: how its buckets are cut, and what is kept of each."""

    dataset: str
    rollup: str
    bucket: str
    zone: str
    length_us: int | None
    shifts: dict[str, str]  # by name, when each starts
    aggregates: list[AggregateDefinition]


@dataclass(frozen=True)
class RollupsDefined:
    """Rollups by dataset; `next` is the cursor of the next page, null on the last."""

    rollups: list[RollupDefinition]
    next: str | None


def list_metrics(
    datasets: Mapping[str, Dataset],
    *,
    dataset: str | None = None,
    limit: int = 1000,
    after: str | None = None,
) -> MetricsDefined:
    """Every metric, by dataset."""
    defined = [
        MetricDefinition(
            dataset=name,
            metric=metric.name,
            kind=metric.kind.value,
            type=metric.type.value,
            unit=metric.unit,
            input=_text(metric.input),
            where=_text(metric.where),
        )
        for name, each in datasets.items()
        if dataset in (None, name)
        for metric in each.metrics
    ]
    return MetricsDefined(*ORDER_OF_METRICS.page_of(defined, after=after, limit=limit))


def list_rollups(
    datasets: Mapping[str, Dataset],
    *,
    dataset: str | None = None,
    limit: int = 1000,
    after: str | None = None,
) -> RollupsDefined:
    """Every rollup, by dataset."""
    defined = [
        RollupDefinition(
            dataset=name,
            rollup=rollup.name,
            bucket=rollup.bucket.kind.value,
            zone=rollup.bucket.zone,
            length_us=rollup.bucket.length_us,
            shifts={shift.name: shift.start.isoformat("minutes") for shift in rollup.bucket.shifts},
            aggregates=[
                AggregateDefinition(
                    aggregate=kept.name,
                    function=kept.function.value,
                    input=_text(kept.input),
                    where=_text(kept.where),
                )
                for kept in rollup.aggregates
            ],
        )
        for name, each in datasets.items()
        if dataset in (None, name)
        for rollup in each.rollups
    ]
    return RollupsDefined(*ORDER_OF_ROLLUPS.page_of(defined, after=after, limit=limit))


def _text(expression: Expression | None) -> str | None:
    return None if expression is None else canonical_text(expression)
