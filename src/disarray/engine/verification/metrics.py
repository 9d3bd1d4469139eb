"""Summaries, bases and whole histories of metrics, from readings, by window functions alone."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from disarray.engine.verification.folds import (
    PIECE,
    area_between,
    fold_metrics,
    increase_between,
    point_type,
)
from disarray.engine.verification.readings import ARROW_FUNCTION, ORDINAL, SEGMENT
from disarray.engine.verification.scratch import SUBJECT
from disarray.model.description.format import CHANNEL, ColumnType
from disarray.model.description.metrics import MetricKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, WindowSpec

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric

_TYPES = {"float": "double", "int": "long"}


def summarize(readings: DataFrame, dataset: Dataset) -> DataFrame:
    """A row per subject, channel, segment, metric and piece, as the catalog keeps it; the bases are not in it."""
    segment = [SUBJECT, CHANNEL, SEGMENT]
    parts = []
    for reset_on, metrics in _by_reset(dataset.metrics).items():
        folded = fold_metrics(readings, metrics, types=dataset.column_types, partition=segment)
        pieces = folded.groupBy(*segment, PIECE).agg(
            F.count(F.lit(1)).alias("_readings"),
            _text(F.min_by(_values(reset_on, dataset), ORDINAL), reset_on).alias("_first_reset"),
            _text(F.max_by(_values(reset_on, dataset), ORDINAL), reset_on).alias("_last_reset"),
            *(_ends(metric).alias(f"_ends_{metric.name}") for metric in metrics),
        )
        last = F.max(PIECE).over(
            Window.partitionBy(*segment).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        )
        # What lies between the first reset and the last matters to nobody outside the segment.
        ends = pieces.withColumn("_last_piece", last).where(f"{PIECE} = 0 or {PIECE} = _last_piece")
        rows = ends.withColumn("_row", _one_by_one(_summary(metric, dataset) for metric in metrics))
        parts.append(
            rows.select(
                F.col(SUBJECT).alias("subject_key"),
                F.col(CHANNEL).alias("channel"),
                F.col(SEGMENT).alias("segment_us"),
                F.when(F.col(PIECE) > 0, 1).otherwise(0).cast("long").alias("piece"),
                F.col("_readings").alias("readings"),
                F.col("_first_reset").alias("first_reset"),
                F.col("_last_reset").alias("last_reset"),
                "_row.*",
            )
        )
    return reduce(DataFrame.unionByName, parts)


def with_bases(summaries: DataFrame, metrics: Sequence[Metric]) -> DataFrame:
    """The summaries with what each piece continues from, and the value that it is added to."""
    series = ["subject_key", "metric", "channel"]
    order = Window.partitionBy(*series).orderBy("segment_us", "piece")
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    restarts = (F.col("piece") == 1) | ~F.col("first_reset").eqNullSafe(F.lag("last_reset").over(order))
    in_island = Window.partitionBy(*series, "_island").orderBy("segment_us", "piece")
    ends = F.struct("last_us", "last_float", "last_int", "last_break")
    prior = F.last(F.when(F.col("points") > 0, ends), ignorenulls=True).over(
        in_island.rowsBetween(Window.unboundedPreceding, -1)
    )
    linked = (
        summaries.withColumn("_restarts", restarts & (F.row_number().over(order) > 1))
        .withColumn("_island", F.sum(F.col("_restarts").cast("long")).over(so_far))
        .withColumns({"_prior": prior, "_is_first": F.row_number().over(in_island) == 1})
    )
    links = {f"prior_{name}": F.col(f"_prior.last_{name}") for name in ("us", "float", "int", "break")}
    former = {f"_former_{kind}": F.lag(f"total_{kind}").over(in_island) for kind in _TYPES}
    linked = linked.withColumns(links | former)
    for stage in (_elements(metrics), _bases(metrics, in_island), _befores(metrics, in_island)):
        linked = linked.withColumns(stage)
    return linked.select(
        *summaries.columns, *links, *_bases(metrics, in_island), *_befores(metrics, in_island)
    )


def whole_history(readings: DataFrame, dataset: Dataset) -> DataFrame:
    """The value of every metric at the last reading of each segment, by one window over the whole history.

    `magnitude` is the sum of the sizes of all steps since the last reset: rounding is judged by it.
    """
    series = [SUBJECT, CHANNEL]
    parts = []
    for metrics in _by_reset(dataset.metrics).values():
        folded = fold_metrics(readings, metrics, types=dataset.column_types, partition=series)
        so_far = (
            Window.partitionBy(*series, PIECE)
            .orderBy(SEGMENT, ORDINAL)
            .rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        folded = folded.withColumns(
            {
                f"_size_{metric.name}": F.sum(F.abs(F.col(f"_step_{metric.name}").cast("double"))).over(
                    so_far
                )
                for metric in metrics
            }
        )
        at_end = folded.groupBy(*series, SEGMENT).agg(
            *(
                F.max_by(F.struct(f"_local_{metric.name}", f"_size_{metric.name}"), ORDINAL).alias(
                    f"_end_{metric.name}"
                )
                for metric in metrics
            )
        )
        values = at_end.withColumn("_row", _one_by_one(_value_at_end(metric) for metric in metrics))
        parts.append(
            values.select(
                F.col(SUBJECT).alias("subject_key"),
                F.col(CHANNEL).alias("channel"),
                F.col(SEGMENT).alias("segment_us"),
                "_row.*",
            )
        )
    return reduce(DataFrame.unionByName, parts)


def _one_by_one(rows: Iterable[Column]) -> Column:
    # Not a union: Spark would fold the readings again for each of its branches.
    return F.explode(F.array(*rows))


def _value_at_end(metric: Metric) -> Column:
    end = F.col(f"_end_{metric.name}")
    return F.struct(
        F.lit(metric.name).alias("metric"),
        *_typed("value", end[f"_local_{metric.name}"], metric),
        F.coalesce(end[f"_size_{metric.name}"], F.lit(0.0)).alias("magnitude"),
    )


def _by_reset(metrics: Sequence[Metric]) -> dict[tuple[str, ...], list[Metric]]:
    grouped: dict[tuple[str, ...], list[Metric]] = defaultdict(list)
    for metric in metrics:
        grouped[metric.reset_on].append(metric)
    return grouped


def _ends(metric: Metric) -> Column:
    point = F.col(f"_point_{metric.name}")
    ordinal = F.when(point.isNotNull(), F.col(ORDINAL))
    return F.struct(
        F.count(point).alias("points"),
        F.max_by(f"_local_{metric.name}", ORDINAL).alias("total"),
        F.min_by(point, ordinal).alias("first"),
        F.max_by(point, ordinal).alias("last"),
    )


def _summary(metric: Metric, dataset: Dataset) -> Column:
    ends = F.col(f"_ends_{metric.name}")
    total = ends["total"]
    if not metric.kind.is_extreme:
        total = F.coalesce(total, F.lit(0).cast(point_type(metric.type)))
    types = dataset.column_types

    def break_text(end: Column) -> Column:
        values = [_plain(end[f"break_{name}"], types[name]).alias(name) for name in metric.break_on]
        return F.when(end.isNotNull(), _text(F.struct(*values), metric.break_on))

    return F.struct(
        F.lit(metric.name).alias("metric"),
        ends["points"].alias("points"),
        *_typed("total", total, metric),
        ends["first"]["us"].alias("first_us"),
        *_typed("first", ends["first"]["x"], metric),
        break_text(ends["first"]).alias("first_break"),
        ends["last"]["us"].alias("last_us"),
        *_typed("last", ends["last"]["x"], metric),
        break_text(ends["last"]).alias("last_break"),
    )


def _typed(name: str, value: Column, metric: Metric) -> list[Column]:
    return [
        (value if kind == _kind(metric) else F.lit(None)).cast(type_).alias(f"{name}_{kind}")
        for kind, type_ in _TYPES.items()
    ]


def _elements(metrics: Sequence[Metric]) -> dict[str, Column]:
    """What a piece adds to the base of the one before it; the first of an island starts anew."""
    found = {}
    for kind, type_ in _TYPES.items():
        zero, former = F.lit(0).cast(type_), F.col(f"_former_{kind}")
        junction = zero
        own = [metric for metric in metrics if _kind(metric) == kind]
        for metric in own:
            junction = F.when(F.col("metric") == metric.name, _junction(metric, kind)).otherwise(junction)
        added = F.when(F.col("_is_first"), zero).otherwise(former + junction)
        element = F.when(_is_extreme(metrics), former).otherwise(added)
        found[f"_element_{kind}"] = F.when(F.col("metric").isin([metric.name for metric in own]), element)
    return found


def _bases(metrics: Sequence[Metric], in_island: WindowSpec) -> dict[str, Column]:
    so_far = in_island.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return {
        f"base_{kind}": F.when(_is_of(metrics, MetricKind.MIN), F.min(f"_element_{kind}").over(so_far))
        .when(_is_of(metrics, MetricKind.MAX), F.max(f"_element_{kind}").over(so_far))
        .otherwise(F.sum(f"_element_{kind}").over(so_far))
        for kind in _TYPES
    }


def _befores(metrics: Sequence[Metric], in_island: WindowSpec) -> dict[str, Column]:
    is_base = _is_extreme(metrics) | F.col("_is_first")
    return {
        f"before_{kind}": F.when(is_base, F.col(f"base_{kind}")).otherwise(
            F.lag(f"base_{kind}").over(in_island) + F.col(f"_former_{kind}")
        )
        for kind in _TYPES
    }


def _is_of(metrics: Sequence[Metric], kind: MetricKind) -> Column:
    return F.col("metric").isin([metric.name for metric in metrics if metric.kind is kind])


def _is_extreme(metrics: Sequence[Metric]) -> Column:
    return F.col("metric").isin([metric.name for metric in metrics if metric.kind.is_extreme])


def _kind(metric: Metric) -> str:
    return "int" if metric.type is ColumnType.INT64 else "float"


def _junction(metric: Metric, kind: str) -> Column:
    """The step from the last point before a piece to its first one."""
    earlier, later = F.col(f"prior_{kind}"), F.col(f"first_{kind}")
    zero = F.lit(0).cast(_TYPES[kind])
    if metric.kind is MetricKind.INCREASE:
        step = increase_between(metric.type, earlier, later)
    elif metric.kind is MetricKind.INTEGRAL:
        assert metric.max_gap_us is not None
        elapsed_us = F.col("first_us") - F.col("prior_us")
        bridged = (elapsed_us <= metric.max_gap_us) & F.col("prior_break").eqNullSafe(F.col("first_break"))
        area = area_between(metric.method, earlier, later, elapsed_us)
        step = F.when(bridged, area).otherwise(zero)
    else:
        return zero
    return F.when(F.col("prior_us").isNotNull() & F.col("first_us").isNotNull(), step).otherwise(zero)


def _values(names: Sequence[str], dataset: Dataset) -> Column:
    types: Mapping[str, ColumnType] = dataset.column_types
    if not names:
        return F.lit(None).cast("string")
    return F.struct(*(_plain(F.col(name), types[name]).alias(name) for name in names))


def _plain(value: Column, type_: ColumnType) -> Column:
    return F.unix_micros(value) if type_ is ColumnType.TIMESTAMP else value


def _text(values: Column, names: Sequence[str]) -> Column:
    """The values as the catalog writes them: a compact JSON array, floats so that they read back to the same bits."""
    if not names:
        return F.lit(None).cast("string")
    text: Column = ARROW_FUNCTION(_json_texts, "string")(values)
    return text


def _json_texts(values: pa.Array) -> pa.Array:
    rows = [None if row is None else list(row.values()) for row in values.to_pylist()]
    return pa.array(
        [None if row is None else json.dumps(row, separators=(",", ":")) for row in rows], pa.string()
    )
