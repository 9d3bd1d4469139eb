"""What other segments need to know of a metric in this one: a row per channel, metric and piece.

Without resets a channel has piece 0 alone. With resets, piece 0 is the part before the first and piece 1 the part from
the last one on; of what lies between only its begin matters outside. A channel with readings always has piece 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.kernels.scanning.value_texts import same_text, value_texts
from disarray.model.description.format import ColumnType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disarray.kernels.scanning.folds import Fold
    from disarray.kernels.scanning.series import Points, Series
    from disarray.kernels.scanning.vectors import Vector

# Numbers stand in the `…_int` or in the `…_float` columns, by the type of the metric; the others are NULL.
SUMMARY_SCHEMA = pa.schema(
    [
        ("segment_us", pa.int64()),
        ("channel", pa.string()),
        ("metric", pa.string()),
        ("piece", pa.int16()),
        ("readings", pa.int64()),
        ("first_reading_us", pa.int64()),
        ("last_reading_us", pa.int64()),
        ("points", pa.int64()),
        ("total_int", pa.int64()),  # min and max: the extreme, NULL without points; else 0 without points
        ("total_float", pa.float64()),
        (
            "first_us",
            pa.int64(),
        ),  # the first point; NULL without points, as all that follows up to `last_break`
        ("first_int", pa.int64()),
        ("first_float", pa.float64()),
        ("first_break", pa.string()),  # canonical text of the `break_on` values; NULL where none is declared
        ("last_us", pa.int64()),
        ("last_int", pa.int64()),
        ("last_float", pa.float64()),
        ("last_break", pa.string()),
        ("first_reset", pa.string()),  # of the `reset_on` values at the first reading of the piece
        ("last_reset", pa.string()),
        # Of piece 0: the first reading after it, where a reset ends it; from here on nothing of it can be read.
        ("reset_us", pa.int64()),
    ]
)


def summarize(series: Series, fold: Fold, *, segment_us: int) -> pa.Table:
    """The summary rows of one metric, by channel and piece."""
    pieces = fold.pieces
    firsts, lasts = pieces.of_channel[:-1], pieces.of_channel[1:] - 1
    channels = np.arange(len(firsts))
    split = lasts > firsts
    picked = np.concatenate([firsts, lasts[split]])
    order = np.argsort(picked, kind="stable")
    picked = picked[order]
    channel = np.concatenate([channels, channels[split]])[order]
    piece = np.concatenate([np.zeros(len(firsts)), np.ones(int(split.sum()))]).astype(np.int16)[order]
    begin, end = pieces.starts[picked], pieces.starts[picked + 1]
    first_point, end_point = fold.point_starts[picked], fold.point_starts[picked + 1]
    empty = end_point == first_point
    is_reset = (piece == 0) & split[channel]
    metric = fold.metric
    point_us = fold.points.at(series.event_us)
    breaks = [series.column(name) for name in metric.break_on]
    resets = [series.column(name) for name in metric.reset_on]
    columns: dict[str, Any] = {
        "segment_us": np.full(len(picked), segment_us),
        "channel": series.channel_names(channel),
        "metric": same_text(metric.name, len(picked)),
        "piece": piece,
        "readings": end - begin,
        "first_reading_us": series.event_us[begin],
        "last_reading_us": series.event_us[end - 1],
        "points": end_point - first_point,
        "first_us": _picked(point_us, first_point, empty),
        "last_us": _picked(point_us, end_point - 1, empty),
        "first_break": _texts(breaks, fold.points, first_point, empty),
        "last_break": _texts(breaks, fold.points, end_point - 1, empty),
        "first_reset": value_texts(resets, begin),
        "last_reset": value_texts(resets, end - 1),
        "reset_us": _picked(series.event_us, end, ~is_reset),
    }
    kind, other = ("int", "float") if metric.type is ColumnType.INT64 else ("float", "int")
    total = _picked(fold.locals, end_point - 1, empty)
    if not metric.kind.is_extreme:
        total = total.fill_null(0)
    columns[f"total_{kind}"] = total
    columns[f"first_{kind}"] = _picked(fold.values, first_point, empty)
    columns[f"last_{kind}"] = _picked(fold.values, end_point - 1, empty)
    for name in ("total", "first", "last"):
        field = f"{name}_{other}"
        columns[field] = pa.nulls(len(picked), SUMMARY_SCHEMA.field(field).type)
    return pa.table([columns[name] for name in SUMMARY_SCHEMA.names], schema=SUMMARY_SCHEMA)


def _picked(values: NDArray[Any], indices: NDArray[np.int64], absent: NDArray[np.bool_]) -> pa.Array[Any]:
    if not len(values):
        return pa.nulls(len(indices), pa.from_numpy_dtype(values.dtype))
    return pa.array(values[np.where(absent, 0, indices)], mask=absent)


def _texts(
    columns: list[Vector], points: Points, indices: NDArray[np.int64], absent: NDArray[np.bool_]
) -> pa.Array[Any]:
    if not columns or not points.count:
        return pa.nulls(len(indices), pa.string())
    # Where there is no point any will do: its text is not kept.
    chosen = np.where(absent, 0, indices)
    texts = value_texts(columns, chosen if points.rows is None else points.rows[chosen])
    return pc.if_else(pa.array(absent), pa.scalar(None, pa.string()), texts)
