"""Rollup parts: what the readings of one segment say about each bucket, by channel and aggregate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa

from disarray.errors import FoldOverflowError
from disarray.kernels.scanning.accumulation import totals
from disarray.kernels.scanning.buckets import buckets_over
from disarray.kernels.scanning.value_texts import same_text
from disarray.model.description.rollups import AggregateFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disarray.kernels.scanning.buckets import Buckets
    from disarray.kernels.scanning.series import Points, Series
    from disarray.model.description.rollups import Aggregate, Rollup
    from disarray.model.segments import Segment

# A row for each bucket with readings, also where none of them is a point. Without points all that follows is NULL.
ROLLUP_SCHEMA = pa.schema(
    [
        ("segment_us", pa.int64()),
        ("rollup", pa.string()),
        ("aggregate", pa.string()),
        ("channel", pa.string()),
        ("bucket_us", pa.int64()),
        ("bucket_end_us", pa.int64()),
        ("label", pa.string()),  # the shift; empty for other buckets
        ("points", pa.int64()),
        ("value_int", pa.int64()),  # sum (also for avg), min, max, first or last, by the type of the input
        ("value_float", pa.float64()),
        ("at_us", pa.int64()),  # first and last: when
        ("pivot", pa.float64()),  # stddev: the first value, and the sums of (x - pivot) and of its squares
        ("offset_sum", pa.float64()),
        ("offset_square_sum", pa.float64()),
    ]
)
# What the call that looks up a channel's edges costs, in readings looked up among the edges.
_LOOKUP_COST = 200


@dataclass(frozen=True, slots=True)
class _Groups:
    """The readings of one channel in one bucket stand together; the last start is the end of all."""

    starts: NDArray[np.int64]
    channel: NDArray[np.int64]
    bucket: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _GroupPoints:
    """The points of each group that has any."""

    values: NDArray[Any]
    firsts: NDArray[np.int64]
    ends: NDArray[np.int64]
    empty: NDArray[np.bool_]  # by group: it has none

    def column(self, values: NDArray[Any]) -> pa.Array[Any]:
        """Values by group with points as a column by group."""
        spread = np.zeros(len(self.empty), dtype=values.dtype)
        spread[~self.empty] = values
        return pa.array(spread, mask=self.empty)


def roll_up(series: Series, rollup: Rollup, segment: Segment) -> pa.Table:
    """The parts of one rollup, by aggregate, channel and bucket."""
    buckets = buckets_over(rollup.bucket, segment.start_us, segment.end_us)
    groups = _group(series, buckets)
    count = len(groups.channel)
    shared: dict[str, Any] = {
        "segment_us": np.full(count, segment.start_us),
        "rollup": same_text(rollup.name, count),
        "channel": series.channel_names(groups.channel),
        "bucket_us": buckets.edges[groups.bucket],
        "bucket_end_us": buckets.edges[groups.bucket + 1],
        "label": buckets.labels.take(pa.array(groups.bucket)),
    }
    tables = []
    for aggregate in rollup.aggregates:
        own = {"aggregate": same_text(aggregate.name, count), **_parts(series, rollup, aggregate, groups)}
        columns = shared | own
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(count, field.type)
            for field in ROLLUP_SCHEMA
        ]
        tables.append(pa.table(arrays, schema=ROLLUP_SCHEMA))
    return pa.concat_tables(tables)


def _group(series: Series, buckets: Buckets) -> _Groups:
    edges = buckets.edges
    if len(series.channels) * (len(edges) + _LOOKUP_COST) <= series.rows:
        # Few buckets: look up the edges among the readings of each channel.
        cuts = [
            start + series.event_us[start:end].searchsorted(edges[:-1])
            for start, end in zip(series.starts[:-1].tolist(), series.starts[1:].tolist(), strict=True)
        ]
        begins = np.concatenate([*cuts, [series.rows]]).astype(np.int64)
        starts = begins[:-1][np.diff(begins) > 0]
    else:
        found = np.searchsorted(edges, series.event_us, side="right")
        begins_one = np.empty(series.rows, dtype=np.bool_)
        np.not_equal(found[1:], found[:-1], out=begins_one[1:])
        begins_one[series.starts[:-1]] = True
        starts = np.flatnonzero(begins_one)
    channel = np.searchsorted(series.starts, starts, side="right") - 1
    bucket = np.searchsorted(edges, series.event_us[starts], side="right") - 1
    return _Groups(np.append(starts, series.rows), channel, bucket)


def _parts(series: Series, rollup: Rollup, aggregate: Aggregate, groups: _Groups) -> dict[str, Any]:
    points = series.points(aggregate.input, aggregate.where)
    point_starts = points.starts(groups.starts)
    counts = np.diff(point_starts)
    columns: dict[str, Any] = {"points": counts}
    if aggregate.function is AggregateFunction.COUNT:
        return columns
    empty = counts == 0
    held = _GroupPoints(points.values, point_starts[:-1][~empty], point_starts[1:][~empty], empty)
    field = "value_float" if points.values.dtype == np.float64 else "value_int"
    match aggregate.function:
        case AggregateFunction.SUM | AggregateFunction.AVG:
            columns[field] = held.column(_sums(held.values, held, series, rollup, aggregate))
        case AggregateFunction.MIN | AggregateFunction.MAX:
            choose = np.minimum if aggregate.function is AggregateFunction.MIN else np.maximum
            columns[field] = held.column(_extremes(choose, held))
        case AggregateFunction.FIRST | AggregateFunction.LAST:
            indices = held.firsts if aggregate.function is AggregateFunction.FIRST else held.ends - 1
            columns[field] = held.column(held.values[indices])
            columns["at_us"] = held.column(_times(series, points)[indices])
        case AggregateFunction.STDDEV:
            columns |= _moments(held, series, rollup, aggregate)
        case _:
            assert_never(aggregate.function)
    return columns


def _times(series: Series, points: Points) -> NDArray[np.int64]:
    times: NDArray[np.int64] = points.at(series.event_us)
    return times


def _extremes(choose: np.ufunc, held: _GroupPoints) -> NDArray[Any]:
    if not len(held.firsts):
        return held.values[:0]
    extremes: NDArray[Any] = choose.reduceat(held.values, held.firsts)
    return extremes


def _moments(held: _GroupPoints, series: Series, rollup: Rollup, aggregate: Aggregate) -> dict[str, Any]:
    values = held.values.astype(np.float64, copy=False)
    pivot = values[held.firsts]
    with np.errstate(all="ignore"):
        offsets = values - np.repeat(pivot, held.ends - held.firsts)
        squares = offsets * offsets
    return {
        "pivot": held.column(pivot),
        "offset_sum": held.column(_sums(offsets, held, series, rollup, aggregate)),
        "offset_square_sum": held.column(_sums(squares, held, series, rollup, aggregate)),
    }


def _sums(
    values: NDArray[Any], held: _GroupPoints, series: Series, rollup: Rollup, aggregate: Aggregate
) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        sums, failed = totals(values, held.firsts)
        if failed.any():
            raise FoldOverflowError(
                f"aggregate {aggregate.name!r} of rollup {rollup.name!r} leaves {values.dtype} in {series.label}; "
                "nothing of it was changed. Leave the readings that do this out with 'where', or scale the input"
            )
    return sums
