"""Rollup parts from readings; the edges of buckets are those that Python computed, over many segments at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa

from disarray.engine.verification.comparison import ROLLUP_PARTS
from disarray.engine.verification.grouped_folds import fold_groups
from disarray.kernels.scanning.buckets import buckets_over
from disarray.model.description.format import ColumnType
from disarray.model.description.rollups import AggregateFunction
from disarray.model.expression.type_check import type_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disarray.engine.verification.history import History
    from disarray.model.description.rollups import Aggregate, Rollup


def rollup_parts(history: History, subject_key: str) -> pa.Table:
    """What every segment contributes to every bucket."""
    tables = [ROLLUP_PARTS.schema.empty_table()]
    if len(history.event_us):
        for rollup in history.dataset.rollups:
            tables += _parts(history, rollup, subject_key)
    return pa.concat_tables(tables)


def _parts(history: History, rollup: Rollup, subject_key: str) -> list[pa.Table]:
    event_us = history.event_us
    buckets = buckets_over(rollup.bucket, int(event_us.min()), int(event_us.max()) + 1)
    bucket = np.searchsorted(buckets.edges, event_us, side="right") - 1
    begins = history.begins_segment
    begins[1:] |= bucket[1:] != bucket[:-1]
    starts = np.flatnonzero(begins)
    own = bucket[starts]
    count = len(starts)
    shared = {
        "subject_key": pa.repeat(subject_key, count),
        "rollup": pa.repeat(rollup.name, count),
        "channel": history.channels.take(pa.array(history.channel[starts])),
        "bucket_us": pa.array(buckets.edges[own]),
        "segment_us": pa.array(history.segment_us[starts]),
        "bucket_end_us": pa.array(buckets.edges[own + 1]),
        "label": buckets.labels.take(pa.array(own)),
    }
    tables = []
    for aggregate in rollup.aggregates:
        columns = shared | _aggregated(history, aggregate, np.append(starts, len(event_us)))
        columns["aggregate"] = pa.repeat(aggregate.name, count)
        arrays = [columns.get(each.name, pa.nulls(count, each.type)) for each in ROLLUP_PARTS.schema]
        tables.append(pa.table(arrays, schema=ROLLUP_PARTS.schema))
    return tables


def _aggregated(history: History, aggregate: Aggregate, edges: NDArray[np.int64]) -> dict[str, pa.Array[Any]]:
    """The columns of the parts of one aggregate; those that it has no use for are left out."""
    points = history.points(aggregate.input, aggregate.where)
    behind = np.searchsorted(points.rows, edges)
    first, end = behind[:-1], behind[1:]
    empty = first == end
    counted = {"points": pa.array(end - first)}
    if aggregate.function is AggregateFunction.COUNT:
        return counted
    assert aggregate.input is not None
    is_whole = type_of(aggregate.input, history.dataset.column_types) is ColumnType.INT64
    name = "value_int" if is_whole else "value_float"
    starts = first[~empty]
    values = points.values

    def column(found: NDArray[Any], fits: NDArray[np.bool_] | None = None) -> pa.Array[Any]:
        spread = np.zeros(len(empty), dtype=found.dtype)
        spread[~empty] = found
        absent = empty.copy()
        if fits is not None:
            absent[~empty] |= ~fits
        return pa.array(spread, mask=absent)

    def folded(fold: np.ufunc, each: NDArray[Any]) -> pa.Array[Any]:
        running, fits = fold_groups(fold, each, starts)
        last = end[~empty] - 1
        return column(running[last], fits[last])

    match aggregate.function:
        case AggregateFunction.SUM | AggregateFunction.AVG:
            return counted | {name: folded(np.add, values)}
        case AggregateFunction.MIN:
            return counted | {name: folded(np.minimum, values)}
        case AggregateFunction.MAX:
            return counted | {name: folded(np.maximum, values)}
        case AggregateFunction.FIRST | AggregateFunction.LAST:
            chosen = starts if aggregate.function is AggregateFunction.FIRST else end[~empty] - 1
            at_us = history.event_us[points.rows[chosen]]
            return counted | {name: column(values[chosen]), "at_us": column(at_us)}
        case AggregateFunction.STDDEV:
            floats = values.astype(np.float64, copy=False)
            pivot = floats[starts]
            with np.errstate(all="ignore"):
                offset = floats - np.repeat(pivot, (end - first)[~empty])
                square = offset * offset
            return counted | {
                "pivot": column(pivot),
                "offset_sum": folded(np.add, offset),
                "offset_square_sum": folded(np.add, square),
            }
        case _:
            assert_never(aggregate.function)
