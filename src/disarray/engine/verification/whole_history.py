"""Stored values against one plain window over each whole history: equal to within rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from disarray.engine.verification.comparison import MAX_LISTED, Difference
from disarray.model.description.metrics import MetricKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from disarray.model.description.dataset import Dataset

# Of the sum of the sizes of all steps: the brackets differ, and nothing else may.
TOLERANCE = 1e-9
_KEYS = ("subject_key", "metric", "channel", "segment_us")


def history_differences(stored: DataFrame, history: DataFrame, dataset: Dataset) -> list[Difference]:
    """Where the value at the end of a segment is not the one of the whole history; missing rows are told elsewhere."""
    last = stored.groupBy(*_KEYS).agg(
        F.max_by(F.struct("base_float", "base_int", "total_float", "total_int"), "piece").alias("last")
    )
    minima = [metric.name for metric in dataset.metrics if metric.kind is MetricKind.MIN]
    extremes = [metric.name for metric in dataset.metrics if metric.kind.is_extreme]
    joined = last.join(history, list(_KEYS)).withColumns(
        {kind: _value(kind, minima, extremes) for kind in ("float", "int")}
    )
    gap = F.abs(F.col("float") - F.col("value_float"))
    empty = F.col("value_float").isNull() & F.col("value_int").isNull()
    starts_at_zero = ~F.col("metric").isin(extremes)
    agrees = (
        F.when(empty & starts_at_zero, F.coalesce("float", F.col("int").cast("double")) == 0.0)
        .when(empty, F.col("float").isNull() & F.col("int").isNull())
        .when(F.col("value_int").isNotNull(), F.col("int") == F.col("value_int"))
        .otherwise(gap <= F.col("magnitude") * TOLERANCE)
    )
    rows = joined.where(~F.coalesce(agrees, F.lit(False))).orderBy(*_KEYS).limit(MAX_LISTED).collect()
    return [
        Difference(
            dataset=dataset.name,
            subject_key=row["subject_key"],
            what="metric over the whole history",
            name=row["metric"],
            channel=row["channel"],
            segment_us=row["segment_us"],
            stored=row["float"] if row["int"] is None else row["int"],
            recomputed=row["value_float"] if row["value_int"] is None else row["value_int"],
        )
        for row in rows
    ]


def _value(kind: str, minima: list[str], extremes: list[str]) -> Column:
    base, total = F.col(f"last.base_{kind}"), F.col(f"last.total_{kind}")
    return (
        F.when(F.col("metric").isin(minima), F.least(base, total))
        .when(F.col("metric").isin(extremes), F.greatest(base, total))
        .otherwise(base + total)
    )
