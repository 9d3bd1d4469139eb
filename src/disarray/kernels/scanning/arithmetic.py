"""Arithmetic that says where it failed: floats that are not finite become NULL, int64 overflow is marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from disarray.kernels.scanning.vectors import Vector, both, either
from disarray.model.expression.tree import Operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from disarray.kernels.scanning.vectors import Mask

_LOWEST = np.iinfo(np.int64).min
_LIMIT = 1 << 63


def calculate(operator: Operator, left: Vector, right: Vector) -> Vector:
    """`+ - * /`; whole numbers stay whole except under `/`."""
    valid, overflow = both(left.valid, right.valid), either(left.overflow, right.overflow)
    if operator is Operator.DIVIDE:
        divisor = right.values.astype(np.float64, copy=False)
        # x / 0.0 is not finite and becomes NULL with the others.
        return finite(left.values.astype(np.float64, copy=False) / divisor + 0.0, valid, overflow)
    if left.is_float or right.is_float:
        first, second = (part.values.astype(np.float64, copy=False) for part in (left, right))
        match operator:
            case Operator.ADD:
                return finite(first + second, valid, overflow)
            case Operator.SUBTRACT:
                return finite(first - second, valid, overflow)
            case _:
                return finite(first * second + 0.0, valid, overflow)
    match operator:
        case Operator.ADD:
            result, failed = add_exactly(left.values, right.values)
        case Operator.SUBTRACT:
            result, failed = subtract_exactly(left.values, right.values)
        case _:
            result, failed = _multiply_exactly(left.values, right.values)
    return _whole(result, failed, valid, overflow)


def finite(values: Any, valid: Mask | None, overflow: Mask | None) -> Vector:
    """Float results; those that are not finite are NULL."""
    values = np.asarray(values)
    is_finite = np.isfinite(values)
    return Vector(values, valid if is_finite.all() else both(valid, is_finite), overflow)


def negative(part: Vector) -> Vector:
    """Minus the value."""
    if part.is_float:
        return Vector(np.asarray(0.0 - part.values), part.valid, part.overflow)
    return _whole(-part.values, part.values == _LOWEST, part.valid, part.overflow)


def magnitude(part: Vector) -> Vector:
    """The value without its sign."""
    if part.is_float:
        return Vector(np.asarray(np.abs(part.values)), part.valid, part.overflow)
    return _whole(np.abs(part.values), part.values == _LOWEST, part.valid, part.overflow)


def rounded(part: Vector, to_whole: Callable[[Any], Any]) -> Vector:
    """The next whole number below or above, as a float."""
    values = part.values.astype(np.float64, copy=False)
    return Vector(np.asarray(to_whole(values) + 0.0), part.valid, part.overflow)


def add_exactly(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[NDArray[np.int64], Mask]:
    """The sums and where they left int64."""
    total = left + right
    return total, ((left ^ total) & (right ^ total)) < 0


def subtract_exactly(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[NDArray[np.int64], Mask]:
    """The differences and where they left int64."""
    difference = left - right
    return difference, ((left ^ right) & (left ^ difference)) < 0


def _multiply_exactly(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[NDArray[np.int64], Mask]:
    product = np.asarray(left * right)
    if _largest(left) * _largest(right) < _LIMIT:
        return product, np.zeros((), dtype=np.bool_)
    nonzero = np.where(left == 0, 1, left)
    # Dividing the lowest by -1 would itself overflow.
    lowest = ((left == -1) & (right == _LOWEST)) | ((right == -1) & (left == _LOWEST))
    inexact = (product // np.where(lowest, 1, nonzero) != right) & (left != 0)
    return product, inexact | lowest


def _largest(values: NDArray[np.int64]) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0


def _whole(values: Any, failed: Mask, valid: Mask | None, overflow: Mask | None) -> Vector:
    where = both(valid, failed) if failed.any() else None
    return Vector(np.asarray(values), valid, either(overflow, where))
