"""What a segment knows about a bucket, and how the parts of one bucket become its value.

Parts are merged in the order of their segments, each sum a left fold that begins with the first part. In SQL that is
`sum(x order by segment_start)` over float8 or bigint, with these terms for the standard deviation, where `pivot_0` is
the pivot of the first part with points and `d = pivot - pivot_0`:

    first moment    offset_sum + points * d
    second moment   (offset_square_sum + (2 * d) * offset_sum) + points * (d * d)

Then `sqrt(greatest(0, (m2 - m1 * m1 / n) / (n - 1)))`, the deviation of a sample; NULL with fewer than two points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from disarray.model.description.rollups import AggregateFunction

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupPart:
    """One aggregate of one segment's readings in one bucket; without points all but `points` is None."""

    points: int
    value: int | float | None = None  # the sum (also for avg), the extreme, or the first or last value
    pivot: float | None = None  # stddev: the first value, and the sums of (x - pivot) and of its squares
    offset_sum: float | None = None
    offset_square_sum: float | None = None


def bucket_value(function: AggregateFunction, parts: Sequence[RollupPart]) -> int | float | None:
    """The aggregate of a whole bucket from its parts, given in the order of their segments."""
    points = sum(part.points for part in parts)
    if function is AggregateFunction.COUNT:
        return points
    filled = [part for part in parts if part.points]
    if not filled:
        return None
    if function is AggregateFunction.STDDEV:
        return _deviation(filled, points)
    values = [part.value for part in filled if part.value is not None]
    match function:
        case AggregateFunction.SUM:
            return _left_sum(values)
        case AggregateFunction.AVG:
            return float(_left_sum(values)) / float(points)
        case AggregateFunction.MIN:
            return min(values)
        case AggregateFunction.MAX:
            return max(values)
        case AggregateFunction.FIRST:
            return values[0]
        case AggregateFunction.LAST:
            return values[-1]
        case _:
            assert_never(function)


def _left_sum(values: Sequence[int | float]) -> int | float:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _deviation(parts: Sequence[RollupPart], points: int) -> float | None:
    if points < 2:
        return None
    first_moments, second_moments = [], []
    for part in parts:
        assert part.pivot is not None
        assert part.offset_sum is not None
        assert part.offset_square_sum is not None
        assert parts[0].pivot is not None
        shift = part.pivot - parts[0].pivot
        first_moments.append(part.offset_sum + part.points * shift)
        second_moments.append(
            (part.offset_square_sum + (2.0 * shift) * part.offset_sum) + part.points * (shift * shift)
        )
    first, second = _left_sum(first_moments), _left_sum(second_moments)
    return math.sqrt(max(0.0, (second - first * first / points) / (points - 1)))
