"""The value of a metric at every reading: the base of its segment, and the fold within it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from disarray.kernels.scanning.folds import FOLDS
from disarray.model.description.format import ColumnType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.kernels.scanning.folds import Fold
    from disarray.kernels.scanning.series import Series
    from disarray.model.description.metrics import Metric


@dataclass(frozen=True, slots=True)
class Base:
    """What a channel brings into a segment: None only for min and max, before their first point.

    `before` is the value just before the first reading; `base` adds the step from the last point before the segment to
    its first one. Readings before that point show `before`.
    """

    before: float | None
    base: float | None


@dataclass(frozen=True, slots=True)
class Locals:
    """The folds within a segment by reading, in canonical order: all that a view needs beside the bases.

    A reading shows `base ⊕ values`, or `before` where `waits`, or `values` alone where `restarted`.
    """

    values: pa.Array[
        Any
    ]  # NULL where no point of the piece has come yet, for min and max alone; else 0 there
    waits: NDArray[np.bool_]  # no point has come yet, and no reset either
    restarted: NDArray[np.bool_]  # at or after the first reset of the channel in this segment


@dataclass(frozen=True, slots=True)
class SeriesLocals:
    """The folds within a segment by reading, channel after channel as the series has them."""

    values: NDArray[Any]  # 0 where no point of the piece has come yet
    has_point: NDArray[np.bool_]  # a point of the piece has come
    restarted: NDArray[np.bool_]  # at or after the first reset of the channel in this segment


def series_locals(series: Series, fold: Fold) -> SeriesLocals:
    """The fold within the segment at every reading, in the order of the series."""
    starts, rows = fold.pieces.starts, fold.points.rows
    is_later = np.ones(len(starts) - 1, dtype=np.bool_)
    is_later[fold.pieces.of_channel[:-1]] = False
    restarted = np.repeat(is_later, np.diff(starts))
    if rows is None:
        values = fold.locals.astype(fold.values.dtype, copy=False)
        return SeriesLocals(values, np.ones(series.rows, dtype=np.bool_), restarted)
    # From its first point on, each piece shows the fold of the newest one.
    has_points = fold.point_starts[:-1] < fold.point_starts[1:]
    piece_ends = starts[1:][has_points]
    edges = np.zeros(series.rows + 1, dtype=np.int8)
    edges[rows[fold.point_starts[:-1][has_points]]] += 1
    edges[piece_ends] -= 1
    has_point = np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)
    until = np.append(rows[1:], series.rows)
    until[fold.point_starts[1:][has_points] - 1] = piece_ends
    values = np.zeros(series.rows, dtype=fold.values.dtype)
    values[has_point] = np.repeat(fold.locals, until - rows)
    return SeriesLocals(values, has_point, restarted)


def local_values(series: Series, fold: Fold) -> Locals:
    """The fold within the segment at every reading; the base is not in it."""
    inside = series_locals(series, fold)
    mask = ~inside.has_point if fold.metric.kind.is_extreme else None
    return Locals(
        pa.array(
            series.in_canonical_order(inside.values),
            mask=None if mask is None else series.in_canonical_order(mask),
        ),
        series.in_canonical_order(~inside.has_point & ~inside.restarted),
        series.in_canonical_order(inside.restarted),
    )


def values_from(
    inside: Locals, metric: Metric, own: Sequence[Base], channel: NDArray[np.int64]
) -> pa.Array[Any]:
    """The folds within a segment on their bases; `channel` has for each reading the index of its base in `own`."""
    before, has_before = _by_reading([each.before for each in own], metric, channel)
    base, has_base = _by_reading([each.base for each in own], metric, channel)
    has_local = inside.values.is_valid().to_numpy(zero_copy_only=False)
    local = inside.values.fill_null(0).to_numpy(zero_copy_only=False)
    if metric.kind.is_extreme:
        extreme = FOLDS[metric.kind]
        joined = np.where(has_base & has_local, extreme(base, local), np.where(has_local, local, base))
        has_joined = has_base | has_local
    else:
        joined, has_joined = base + local, np.ones(len(channel), dtype=np.bool_)
    values = np.where(inside.restarted, local, np.where(inside.waits, before, joined))
    there = np.where(inside.restarted, has_local, np.where(inside.waits, has_before, has_joined))
    return pa.array(values, mask=~there)


def _by_reading(
    values: list[float | None], metric: Metric, channel: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    dtype = np.int64 if metric.type is ColumnType.INT64 else np.float64
    numbers = np.array([0 if value is None else value for value in values], dtype=dtype)
    there = np.array([value is not None for value in values], dtype=np.bool_)
    return numbers[channel], there[channel]
