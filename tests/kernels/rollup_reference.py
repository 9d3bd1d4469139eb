"""Rollup parts and whole buckets, row by row."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

from disarray.model.description.format import ColumnType
from disarray.model.description.rollups import AggregateFunction
from disarray.model.expression.type_check import type_of
from tests.kernels.bucket_reference import walk
from tests.kernels.expression_reference import COLUMNS, Value, evaluate_row
from tests.kernels.scan_reference import Number, Row, checked, is_point

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.model.description.rollups import Aggregate, Bucket, Rollup


def bucket_at(bucket: Bucket, at_us: int, *, start_us: int, end_us: int) -> tuple[int, int, str]:
    """(start, end, label) of the bucket in which an instant of [start_us, end_us) lies."""
    walked = walk(bucket, start_us, end_us)
    place = bisect_right([at for at, _ in walked], at_us)
    start, label = walked[place - 1]
    return start, walked[place][0], label


def points_of(
    aggregate: Aggregate, rows: Sequence[Row], types: Mapping[str, ColumnType] = COLUMNS
) -> list[tuple[int, Number]]:
    found: list[tuple[int, Number]] = []
    for row in rows:
        if is_point(row, aggregate.input, aggregate.where):
            value: Value = 1 if aggregate.input is None else evaluate_row(aggregate.input, row.values)
            if aggregate.input is not None and type_of(aggregate.input, types) is ColumnType.FLOAT64:
                value = float(value)  # type: ignore[arg-type]
            assert isinstance(value, int | float)
            found.append((row.event_us, value))
    return found


def left_sum(values: Sequence[Number]) -> Number:
    total = values[0]
    for value in values[1:]:
        total = checked(total + value)
    return checked(total)


def part(
    aggregate: Aggregate, rows: Sequence[Row], types: Mapping[str, ColumnType] = COLUMNS
) -> dict[str, object]:
    """The columns of a part that depend on the readings."""
    points = points_of(aggregate, rows, types)
    names = ["value_int", "value_float", "at_us", "pivot", "offset_sum", "offset_square_sum"]
    found: dict[str, object] = {"points": len(points), **dict.fromkeys(names)}
    if not points or aggregate.function is AggregateFunction.COUNT:
        return found
    values = [value for _, value in points]
    field = "value_float" if isinstance(values[0], float) else "value_int"
    match aggregate.function:
        case AggregateFunction.SUM | AggregateFunction.AVG:
            found[field] = left_sum(values)
        case AggregateFunction.MIN:
            found[field] = min(values)
        case AggregateFunction.MAX:
            found[field] = max(values)
        case AggregateFunction.FIRST:
            found["at_us"], found[field] = points[0]
        case AggregateFunction.LAST:
            found["at_us"], found[field] = points[-1]
        case _:
            pivot = float(values[0])
            offsets = [float(value) - pivot for value in values]
            found["pivot"] = pivot
            found["offset_sum"] = left_sum(offsets)
            found["offset_square_sum"] = left_sum([offset * offset for offset in offsets])
    return found


def parts(
    rollup: Rollup, channel: str, rows: Sequence[Row], *, start_us: int, end_us: int
) -> list[dict[str, object]]:
    """All parts of one channel in one segment."""
    grouped: dict[tuple[int, int, str], list[Row]] = {}
    for row in rows:
        bucket = bucket_at(rollup.bucket, row.event_us, start_us=start_us, end_us=end_us)
        grouped.setdefault(bucket, []).append(row)
    return [
        {
            "segment_us": start_us,
            "rollup": rollup.name,
            "aggregate": aggregate.name,
            "channel": channel,
            "bucket_us": start,
            "bucket_end_us": end,
            "label": label,
            **part(aggregate, own),
        }
        for aggregate in rollup.aggregates
        for (start, end, label), own in grouped.items()
    ]


def plain_value(aggregate: Aggregate, rows: Sequence[Row]) -> Number | None:
    """The aggregate in one pass over all readings of a bucket, by the textbook."""
    values = [value for _, value in points_of(aggregate, rows)]
    if aggregate.function is AggregateFunction.COUNT:
        return len(values)
    if not values:
        return None
    match aggregate.function:
        case AggregateFunction.SUM:
            return math.fsum(values) if isinstance(values[0], float) else sum(values)
        case AggregateFunction.AVG:
            return math.fsum(values) / len(values)
        case AggregateFunction.MIN:
            return min(values)
        case AggregateFunction.MAX:
            return max(values)
        case AggregateFunction.FIRST:
            return values[0]
        case AggregateFunction.LAST:
            return values[-1]
        case _:
            if len(values) < 2:
                return None
            mean = math.fsum(values) / len(values)
            return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
