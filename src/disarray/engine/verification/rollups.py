"""Rollup parts from readings, by window functions alone; the edges of buckets are those that Python computed."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from disarray.engine.verification.folds import point_value, running_sum
from disarray.engine.verification.readings import ORDINAL, SEGMENT
from disarray.engine.verification.scratch import SUBJECT
from disarray.kernels.scanning.buckets import buckets_over
from disarray.model.description.format import CHANNEL, EVENT_US, ColumnType
from disarray.model.description.rollups import AggregateFunction
from disarray.model.expression.type_check import type_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, SparkSession, WindowSpec

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.rollups import Aggregate, Rollup

BUCKET_SCHEMA = f"{SEGMENT} long, _bucket_us long, _bucket_end_us long, _label string"
_SUMMED = frozenset({AggregateFunction.SUM, AggregateFunction.AVG})
_MERGED_AT_READ = frozenset({AggregateFunction.COUNT, AggregateFunction.STDDEV})


def rollup_parts(
    session: SparkSession, readings: DataFrame, dataset: Dataset, segments: Iterable[int]
) -> DataFrame:
    """What every segment contributes to every bucket; `segments` are all that have readings."""
    starts = sorted(segments)
    return reduce(
        DataFrame.unionByName,
        [_parts(session, readings, rollup, dataset, starts) for rollup in dataset.rollups],
    )


def _parts(
    session: SparkSession, readings: DataFrame, rollup: Rollup, dataset: Dataset, segments: list[int]
) -> DataFrame:
    buckets = session.createDataFrame(list(_buckets(rollup, dataset, segments)), BUCKET_SCHEMA)
    within = (F.col(EVENT_US) >= F.col("_bucket_us")) & (F.col(EVENT_US) < F.col("_bucket_end_us"))
    placed = readings.join(F.broadcast(buckets), SEGMENT).where(within)
    group = [SUBJECT, CHANNEL, SEGMENT, "_bucket_us", "_bucket_end_us", "_label"]
    so_far = (
        Window.partitionBy(*group).orderBy(ORDINAL).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    for columns in (
        {
            f"_x_{aggregate.name}": point_value(aggregate.input, aggregate.where, dataset.column_types)
            for aggregate in rollup.aggregates
        },
        _sums(rollup, dataset, so_far) | _pivots(rollup, so_far),
        _moments(rollup, so_far),
    ):
        placed = placed.withColumns(columns) if columns else placed
    grouped = placed.groupBy(*group).agg(
        F.array(*(_part(aggregate, dataset) for aggregate in rollup.aggregates)).alias("_parts")
    )
    return grouped.withColumn("_part", F.explode("_parts")).select(
        F.col(SUBJECT).alias("subject_key"),
        F.lit(rollup.name).alias("rollup"),
        F.col(CHANNEL).alias("channel"),
        F.col("_bucket_us").alias("bucket_us"),
        F.col(SEGMENT).alias("segment_us"),
        F.col("_bucket_end_us").alias("bucket_end_us"),
        F.col("_label").alias("label"),
        "_part.*",
    )


def _sums(rollup: Rollup, dataset: Dataset, so_far: WindowSpec) -> dict[str, Column]:
    return {
        f"_sum_{each.name}": running_sum(F.col(f"_x_{each.name}"), _type(each, dataset)).over(so_far)
        for each in rollup.aggregates
        if each.function in _SUMMED
    }


def _pivots(rollup: Rollup, so_far: WindowSpec) -> dict[str, Column]:
    return {
        f"_pivot_{each.name}": F.first(F.col(f"_x_{each.name}").cast("double"), ignorenulls=True).over(so_far)
        for each in rollup.aggregates
        if each.function is AggregateFunction.STDDEV
    }


def _moments(rollup: Rollup, so_far: WindowSpec) -> dict[str, Column]:
    found = {}
    for each in rollup.aggregates:
        if each.function is AggregateFunction.STDDEV:
            offset = F.col(f"_x_{each.name}").cast("double") - F.col(f"_pivot_{each.name}")
            found[f"_offset_{each.name}"] = F.sum(offset).over(so_far)
            found[f"_square_{each.name}"] = F.sum(offset * offset).over(so_far)
    return found


def _buckets(rollup: Rollup, dataset: Dataset, segments: list[int]) -> Iterable[tuple[int, int, int, str]]:
    for start_us in segments:
        buckets = buckets_over(rollup.bucket, start_us, start_us + dataset.segment_length_us)
        edges = buckets.edges.tolist()
        for first, last, label in zip(edges[:-1], edges[1:], buckets.labels.to_pylist(), strict=True):
            yield start_us, first, last, label


def _part(aggregate: Aggregate, dataset: Dataset) -> Column:
    """The columns of one part, NULL where the aggregate has no use for them."""
    x = F.col(f"_x_{aggregate.name}")
    ordinal = F.when(x.isNotNull(), F.col(ORDINAL))
    value = at_us = pivot = offset = square = F.lit(None)
    match aggregate.function:
        case AggregateFunction.SUM | AggregateFunction.AVG:
            value = F.max_by(f"_sum_{aggregate.name}", ORDINAL)
        case AggregateFunction.MIN:
            value = F.min(x)
        case AggregateFunction.MAX:
            value = F.max(x)
        case AggregateFunction.FIRST:
            value, at_us = F.min_by(x, ordinal), F.min_by(EVENT_US, ordinal)
        case AggregateFunction.LAST:
            value, at_us = F.max_by(x, ordinal), F.max_by(EVENT_US, ordinal)
        case AggregateFunction.STDDEV:
            pivot = F.max_by(f"_pivot_{aggregate.name}", ORDINAL)
            offset = F.max_by(f"_offset_{aggregate.name}", ORDINAL)
            square = F.max_by(f"_square_{aggregate.name}", ORDINAL)
        case AggregateFunction.COUNT:
            pass
    is_whole = aggregate.function not in _MERGED_AT_READ and _type(aggregate, dataset) is ColumnType.INT64
    none = F.lit(None)
    return F.struct(
        F.lit(aggregate.name).alias("aggregate"),
        F.count(x).alias("points"),
        (none if is_whole else value).cast("double").alias("value_float"),
        (value if is_whole else none).cast("long").alias("value_int"),
        at_us.cast("long").alias("at_us"),
        pivot.cast("double").alias("pivot"),
        offset.cast("double").alias("offset_sum"),
        square.cast("double").alias("offset_square_sum"),
    )


def _type(aggregate: Aggregate, dataset: Dataset) -> ColumnType:
    assert aggregate.input is not None
    return type_of(aggregate.input, dataset.column_types)
