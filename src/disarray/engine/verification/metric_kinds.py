"""What each kind of metric does with its points, in other code than the kernels: all that `verify` knows of a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from disarray.model.description.metrics import SMALLEST_HEIGHT, IntegralMethod, MetricKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disarray.model.description.metrics import Metric

FOLDS: dict[MetricKind, np.ufunc] = {
    MetricKind.SUM: np.add,
    MetricKind.COUNT: np.add,
    MetricKind.INTEGRAL: np.add,
    MetricKind.INCREASE: np.add,
    MetricKind.MIN: np.minimum,
    MetricKind.MAX: np.maximum,
}
# Whether a point adds what lies between it and the one before it; else it adds what it is itself.
ADDS_STEPS: dict[MetricKind, bool] = {
    MetricKind.SUM: False,
    MetricKind.COUNT: False,
    MetricKind.INTEGRAL: True,
    MetricKind.INCREASE: True,
    MetricKind.MIN: False,
    MetricKind.MAX: False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Points and those behind them, within a segment or from one to the next."""

    earlier: NDArray[Any]
    later: NDArray[Any]
    elapsed_us: NDArray[np.int64]
    is_broken: NDArray[np.bool_]  # a column of `break_on` changes between the two


def steps_between(metric: Metric, pairs: Pairs) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """What is added from each point to the one behind it, and whether its type can hold that."""
    match metric.kind:
        case MetricKind.SUM | MetricKind.COUNT | MetricKind.MIN | MetricKind.MAX:
            return np.zeros_like(pairs.later), np.ones(len(pairs.later), dtype=np.bool_)
        case MetricKind.INTEGRAL:
            assert metric.max_gap_us is not None
            is_bridged = (pairs.elapsed_us <= metric.max_gap_us) & ~pairs.is_broken
            area = _area(metric.method, pairs.earlier, pairs.later, pairs.elapsed_us)
            return np.where(is_bridged, area, 0.0), np.ones(len(area), dtype=np.bool_)
        case MetricKind.INCREASE:
            return _increase(pairs.earlier, pairs.later)
        case _:
            assert_never(metric.kind)


def _area(
    method: IntegralMethod,
    earlier: NDArray[np.float64],
    later: NDArray[np.float64],
    elapsed_us: NDArray[np.int64],
) -> NDArray[np.float64]:
    """With the brackets of the law."""
    seconds = elapsed_us.astype(np.float64) / 1e6
    if method is IntegralMethod.PREVIOUS:
        height, area = earlier, earlier * seconds
    else:
        height = earlier + later
        area = (height * 0.5) * seconds
    found: NDArray[np.float64] = np.where(np.abs(height) >= SMALLEST_HEIGHT, area, 0.0) + 0.0
    return found


def _increase(earlier: NDArray[Any], later: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """After a drop a counter started again at 0."""
    difference = later - earlier
    step = np.where(later < earlier, later, difference)
    if step.dtype == np.float64:
        return step, np.ones(len(step), dtype=np.bool_)
    # A difference between numbers in this order is never negative, unless it went around.
    return step, (later < earlier) | (difference >= 0)
