"""Metrics by window functions: points, steps and left folds over any stretch of readings.

The same transform serves a segment and a whole history: what differs is how the readings are partitioned. A running
`sum` over `rows between unbounded preceding and current row` adds one row after the other and is a left fold; the
`sum` of a group is not, and is used nowhere here on floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from disarray.engine.verification.readings import ORDINAL, SEGMENT
from disarray.model.description.format import EVENT_US, ColumnType
from disarray.model.description.metrics import SMALLEST_HEIGHT, IntegralMethod, MetricKind
from disarray.model.expression.spark_sql import spark_sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from disarray.model.description.metrics import Metric
    from disarray.model.expression.tree import Expression

PIECE = "_piece"  # how many resets came before, within the partition


def fold_metrics(
    readings: DataFrame,
    metrics: Sequence[Metric],
    *,
    types: Mapping[str, ColumnType],
    partition: Sequence[str],
) -> DataFrame:
    """The readings with `_point_…`, `_step_…` and `_local_…` of metrics that reset on the same columns."""
    [reset_on] = {metric.reset_on for metric in metrics}
    folded = _with_pieces(readings, reset_on, partition)
    order = Window.partitionBy(*partition, PIECE).orderBy(SEGMENT, ORDINAL)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    # One projection for each stage: Spark takes long to plan many small ones.
    for columns in (
        {f"_point_{metric.name}": _point(metric, types) for metric in metrics},
        {
            f"_earlier_{metric.name}": F.last(f"_point_{metric.name}", ignorenulls=True).over(before)
            for metric in metrics
        },
        {f"_step_{metric.name}": _step(metric) for metric in metrics},
        {f"_local_{metric.name}": _fold(metric).over(so_far) for metric in metrics},
    ):
        folded = folded.withColumns(columns)
    return folded


def point_value(
    value: Expression | None, where: Expression | None, types: Mapping[str, ColumnType]
) -> Column:
    """The input where the reading is a point, else NULL; a count without an input takes 1 for it."""
    found = F.lit(1).cast("long") if value is None else F.expr(spark_sql(value, types))
    return found if where is None else F.when(F.expr(spark_sql(where, types)), found)


def running_sum(values: Column, type_: ColumnType) -> Column:
    """The sum of this type; a whole one that overflows is NULL here, and was never stored."""
    return F.try_sum(values) if type_ is ColumnType.INT64 else F.sum(values)


def _point(metric: Metric, types: Mapping[str, ColumnType]) -> Column:
    value = point_value(metric.input, metric.where, types)
    if metric.kind is MetricKind.COUNT:
        value = F.when(value.isNotNull(), F.lit(1))
    value = value.cast(point_type(metric.type))
    breaks = [F.col(name).alias(f"break_{name}") for name in metric.break_on]
    return F.when(value.isNotNull(), F.struct(F.col(EVENT_US).alias("us"), value.alias("x"), *breaks))


def _fold(metric: Metric) -> Column:
    steps = F.col(f"_step_{metric.name}")
    if metric.kind.is_extreme:
        return F.min(steps) if metric.kind is MetricKind.MIN else F.max(steps)
    return running_sum(steps, metric.type)


def _with_pieces(readings: DataFrame, reset_on: Sequence[str], partition: Sequence[str]) -> DataFrame:
    if not reset_on:
        return readings.withColumn(PIECE, F.lit(0).cast("long"))
    order = Window.partitionBy(*partition).orderBy(SEGMENT, ORDINAL)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    changed = F.lit(False)
    for name in reset_on:
        changed = changed | ~F.col(name).eqNullSafe(F.lag(name).over(order))
    is_reset = changed & (F.row_number().over(order) > 1)
    return (
        readings.withColumn("_is_reset", is_reset)
        .withColumn(PIECE, F.sum(F.col("_is_reset").cast("long")).over(so_far))
        .drop("_is_reset")
    )


def _step(metric: Metric) -> Column:
    point, earlier = F.col(f"_point_{metric.name}"), F.col(f"_earlier_{metric.name}")
    match metric.kind:
        case MetricKind.SUM | MetricKind.COUNT | MetricKind.MIN | MetricKind.MAX:
            return point["x"]
        case MetricKind.INTEGRAL:
            assert metric.max_gap_us is not None
            elapsed_us = point["us"] - earlier["us"]
            bridged = elapsed_us <= metric.max_gap_us
            for name in metric.break_on:
                bridged = bridged & point[f"break_{name}"].eqNullSafe(earlier[f"break_{name}"])
            area = area_between(metric.method, earlier["x"], point["x"], elapsed_us)
            between = F.when(bridged, area + F.lit(0.0)).otherwise(F.lit(0.0))
        case MetricKind.INCREASE:
            between = increase_between(metric.type, earlier["x"], point["x"])
        case _:
            assert_never(metric.kind)
    first = F.lit(0).cast(point_type(metric.type))
    return F.when(point.isNotNull(), F.when(earlier.isNull(), first).otherwise(between))


def area_between(method: IntegralMethod, earlier: Column, later: Column, elapsed_us: Column) -> Column:
    """What an integral adds between two points, with the brackets of the law."""
    seconds = elapsed_us.cast("double") / F.lit(1e6)
    height = earlier if method is IntegralMethod.PREVIOUS else earlier + later
    area = height * seconds if method is IntegralMethod.PREVIOUS else (height * F.lit(0.5)) * seconds
    return F.when(F.abs(height) >= SMALLEST_HEIGHT, area).otherwise(F.lit(0.0))


def increase_between(type_: ColumnType, earlier: Column, later: Column) -> Column:
    """What a counter adds between two points: after a drop it started again at 0."""
    difference = F.try_subtract(later, earlier) if type_ is ColumnType.INT64 else later - earlier
    return F.when(later < earlier, later).otherwise(difference)


def point_type(type_: ColumnType) -> str:
    """The Spark type of a metric."""
    return "long" if type_ is ColumnType.INT64 else "double"
