"""Metrics within one segment: steps between points, and their left fold in every piece.

A piece is a channel's readings between two resets. What lies outside the segment is added later: from summaries to
the bases of other segments, and from a base to the running values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from disarray.errors import FoldOverflowError
from disarray.kernels.scanning.accumulation import accumulate, leaves_range
from disarray.kernels.scanning.arithmetic import subtract_exactly
from disarray.kernels.scanning.vectors import changes
from disarray.model.description.format import ColumnType
from disarray.model.description.metrics import SMALLEST_HEIGHT, IntegralMethod, MetricKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.kernels.scanning.series import Points, Series
    from disarray.kernels.scanning.vectors import Mask, Vector
    from disarray.model.description.metrics import Metric


@dataclass(frozen=True, slots=True)
class Pieces:
    """Stretches of readings without a reset, channel after channel; the last start is the end of all."""

    starts: NDArray[np.int64]  # by piece, and the number of readings
    of_channel: NDArray[np.int64]  # by channel: its first piece, and the number of pieces


@dataclass(frozen=True, slots=True)
class Fold:
    """One metric over the points of a series."""

    metric: Metric
    pieces: Pieces
    points: Points
    values: NDArray[Any]  # by point, in the metric's type
    point_starts: NDArray[np.int64]  # by piece: its first point, and the number of points
    locals: NDArray[Any]  # by point: the fold of its piece so far


def fold_metric(series: Series, metric: Metric) -> Fold:
    """Fold one metric within the segment; a total that its type cannot hold is an error."""
    pieces = find_pieces(series, metric.reset_on)
    points = series.points(metric.input, metric.where)
    values = points.values
    if metric.kind is MetricKind.COUNT:
        values = np.ones(points.count, dtype=np.int64)
    elif metric.type is ColumnType.FLOAT64:
        values = values.astype(np.float64, copy=False)
    point_starts = points.starts(pieces.starts)
    # Pieces without a point have no place in the fold.
    first_points = point_starts[:-1][np.diff(point_starts) > 0]
    with np.errstate(all="ignore"):
        steps = _steps(series, metric, points, values=values, firsts=first_points)
        folded = accumulate(FOLDS[metric.kind], steps, first_points)
        if FOLDS[metric.kind] is np.add:
            _refuse_overflow(series, metric, leaves_range(steps, folded, first_points))
    return Fold(metric, pieces, points, values, point_starts, folded)


FOLDS: dict[MetricKind, np.ufunc] = {
    MetricKind.SUM: np.add,
    MetricKind.COUNT: np.add,
    MetricKind.INTEGRAL: np.add,
    MetricKind.INCREASE: np.add,
    MetricKind.MIN: np.minimum,
    MetricKind.MAX: np.maximum,
}


def find_pieces(series: Series, reset_on: Sequence[str]) -> Pieces:
    """Where the readings of each channel restart: at its first, and wherever a column changes."""
    starts = series.starts
    resets = _any_change([series.column(name) for name in reset_on])
    if resets is not None and resets.any():
        starts = np.union1d(starts, np.flatnonzero(resets) + 1)
    return Pieces(starts, np.searchsorted(starts, series.starts))


def _any_change(columns: Sequence[Vector]) -> Mask | None:
    """By pair of neighbours, whether any column differs; None where none can."""
    found: Mask | None = None
    for column in columns:
        if not column.is_constant:
            changed = changes(column)
            found = changed if found is None else found | changed
    return found


def _steps(
    series: Series,
    metric: Metric,
    points: Points,
    *,
    values: NDArray[Any],
    firsts: NDArray[np.int64],
) -> NDArray[Any]:
    match metric.kind:
        case MetricKind.SUM | MetricKind.COUNT | MetricKind.MIN | MetricKind.MAX:
            return values
        case MetricKind.INTEGRAL:
            between = _integral_steps(series, metric, points, values)
        case MetricKind.INCREASE:
            between = _increases(series, metric, values, firsts)
        case _:
            assert_never(metric.kind)
    steps = np.zeros(len(values), dtype=values.dtype)
    steps[1:] = between
    # Nothing bridges from one piece to the next. And with 0.0 first, no sum is ever -0.0.
    steps[firsts] = 0
    return steps


def _integral_steps(
    series: Series, metric: Metric, points: Points, values: NDArray[np.float64]
) -> NDArray[np.float64]:
    assert metric.max_gap_us is not None
    elapsed_us = np.diff(points.at(series.event_us))
    steps: NDArray[np.float64] = elapsed_us / 1e6
    height = values[:-1] if metric.method is IntegralMethod.PREVIOUS else values[:-1] + values[1:]
    broken = np.abs(height) < SMALLEST_HEIGHT
    broken |= elapsed_us > metric.max_gap_us
    if metric.method is not IntegralMethod.PREVIOUS:
        height *= 0.5
    steps *= height
    changed = _any_change([points.vector(series.column(name)) for name in metric.break_on])
    steps[broken if changed is None else broken | changed] = 0.0
    return steps


def _increases(
    series: Series, metric: Metric, values: NDArray[Any], firsts: NDArray[np.int64]
) -> NDArray[Any]:
    before, after = values[:-1], values[1:]
    dropped = after < before
    if values.dtype == np.float64:
        return np.where(dropped, after, after - before)
    difference, failed = subtract_exactly(after, before)
    counts = ~dropped
    counts[firsts[firsts > 0] - 1] = False
    _refuse_overflow(series, metric, failed & counts)
    return np.where(dropped, after, difference)


def _refuse_overflow(series: Series, metric: Metric, failed: NDArray[np.bool_]) -> None:
    if failed.any():
        raise FoldOverflowError(
            f"metric {metric.name!r} leaves {metric.type} in {series.label}; nothing of it was changed. "
            "Leave the readings that do this out with 'where', or scale the input"
        )
