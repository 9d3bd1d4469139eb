"""The law of merging and folding, row by row in plain Python: slow, obvious, and independent of the kernels."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.model.description.format import ColumnType
from disarray.model.description.metrics import IntegralMethod, MetricKind
from disarray.model.description.read_spec import KeyKind
from tests.kernels.expression_reference import Value, evaluate_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disarray.model.description.metrics import Metric
    from disarray.model.description.scan_spec import ScanSpec
    from disarray.model.expression.tree import Expression

Number = int | float


class BeyondRangeError(Exception):
    """A fold left int64 or float64."""


@dataclass(frozen=True)
class Row:
    """One reading as a file has it."""

    event_us: int
    uri: str
    position: int
    priority: int
    channel: str
    values: dict[str, Value]


@dataclass(frozen=True)
class Outcome:
    """What merging leaves."""

    winners: list[Row]
    duplicates: int
    conflicts: list[tuple[Row, Row]]  # (winner, loser), losers in canonical order


def null_first(value: Value) -> tuple[bool, object]:
    return (False, 0) if value is None else (True, value.encode() if isinstance(value, str) else value)


def merge(rows: Iterable[Row], spec: ScanSpec) -> Outcome:
    def place(row: Row) -> tuple[object, ...]:
        order = tuple(null_first(row.values[name]) for name in spec.order_by)
        return (row.event_us, order, row.uri.encode(), row.position)

    keyed: dict[object, list[Row]] = {}
    seen: dict[object, int] = {}
    for row in sorted(rows, key=lambda row: (row.uri, row.position)):
        key: tuple[object, ...] = (row.event_us, row.channel)
        if spec.key.kind is KeyKind.NONE:
            key = (row.uri, row.position)
        elif spec.key.kind is KeyKind.COLUMNS:
            key += tuple(_typed(row.values[name]) for name in spec.key.columns)
        else:
            key += tuple(_typed(row.values[name]) for name in spec.columns)
            seen[key, row.uri] = seen.get((key, row.uri), 0) + 1
            key += (seen[key, row.uri],)
        keyed.setdefault(key, []).append(row)
    winners, conflicts, duplicates = [], [], 0
    newest = spec.conflict.column
    for group in keyed.values():
        winner = max(
            group,
            key=lambda row: (
                null_first(None if newest is None else row.values[newest]),
                row.priority,
                row.uri.encode(),
                row.position,
            ),
        )
        winners.append(winner)
        losers = [row for row in group if row is not winner]
        duplicates += len(losers)
        conflicts += [(winner, row) for row in losers if row.values != winner.values]
    return Outcome(sorted(winners, key=place), duplicates, sorted(conflicts, key=lambda pair: place(pair[1])))


def _typed(value: Value) -> object:
    return (type(value).__name__, value)


def is_point(row: Row, value: Expression | None, where: Expression | None) -> bool:
    if where is not None and evaluate_row(where, row.values) is not True:
        return False
    return value is None or evaluate_row(value, row.values) is not None


def input_of(metric: Metric, row: Row) -> Number:
    if metric.kind is MetricKind.COUNT or metric.input is None:
        return 1
    value = evaluate_row(metric.input, row.values)
    assert isinstance(value, int | float)
    return float(value) if metric.type is ColumnType.FLOAT64 else value


def key_text(row: Row, columns: Sequence[str]) -> str | None:
    if not columns:
        return None
    return json.dumps([row.values[name] for name in columns], separators=(",", ":"))


@dataclass(frozen=True)
class Point:
    us: int
    x: Number
    at_break: str | None


def point_of(metric: Metric, row: Row) -> Point:
    return Point(row.event_us, input_of(metric, row), key_text(row, metric.break_on))


def step(metric: Metric, earlier: Point | None, later: Point) -> Number:
    """What a point adds; `earlier` is the point before it, None at the start of a history or piece."""
    if metric.kind in (MetricKind.SUM, MetricKind.COUNT):
        return later.x
    assert metric.kind in (MetricKind.INTEGRAL, MetricKind.INCREASE)
    zero = 0 if metric.type is ColumnType.INT64 else 0.0
    if earlier is None:
        return zero
    if metric.kind is MetricKind.INCREASE:
        return checked(later.x if later.x < earlier.x else later.x - earlier.x)
    assert metric.max_gap_us is not None
    if later.us - earlier.us > metric.max_gap_us or earlier.at_break != later.at_break:
        return 0.0
    seconds = (later.us - earlier.us) / 1e6
    if abs(earlier.x if metric.method is IntegralMethod.PREVIOUS else earlier.x + later.x) < 1e-280:
        return 0.0
    if metric.method is IntegralMethod.PREVIOUS:
        return earlier.x * seconds + 0.0
    return ((earlier.x + later.x) * 0.5) * seconds + 0.0


def junction(metric: Metric, earlier: Point | None, later: Point) -> Number:
    """What the first point of a segment adds beyond the segment's own total."""
    if metric.kind in (MetricKind.INTEGRAL, MetricKind.INCREASE):
        return step(metric, earlier, later)
    return zero_of(metric) or 0


def zero_of(metric: Metric) -> Number | None:
    if metric.kind in (MetricKind.MIN, MetricKind.MAX):
        return None
    return 0 if metric.type is ColumnType.INT64 else 0.0


def checked(number: Number) -> Number:
    if isinstance(number, float):
        if not math.isfinite(number):
            raise BeyondRangeError
        return number
    if not -(2**63) <= number < 2**63:
        raise BeyondRangeError
    return number


def join(metric: Metric, left: Number | None, right: Number | None) -> Number | None:
    """⊕: the sum, or the extreme of what is there."""
    if left is None or right is None:
        return right if left is None else left
    if metric.kind is MetricKind.MIN:
        return min(left, right)
    if metric.kind is MetricKind.MAX:
        return max(left, right)
    return checked(left + right)


def add_point(metric: Metric, local: Number | None, earlier: Point | None, point: Point) -> Number | None:
    """The fold within a piece after one more point."""
    if metric.kind in (MetricKind.MIN, MetricKind.MAX):
        return join(metric, local, point.x)
    added = step(metric, earlier, point)
    return added if earlier is None else join(metric, local, added)


def summaries(metric: Metric, rows: Sequence[Row]) -> list[dict[str, object]]:
    """The summary rows of one channel within one segment; the rows are its winners in canonical order."""
    pieces: list[list[Row]] = []
    for row in rows:
        key = key_text(row, metric.reset_on)
        if not pieces or key != key_text(pieces[-1][-1], metric.reset_on):
            pieces.append([])
        pieces[-1].append(row)
    folded = [_summary(metric, piece) for piece in pieces]  # also those between: any may leave the range
    kept = [folded[0]] if len(folded) == 1 else [folded[0], folded[-1]]
    reset_us = pieces[1][0].event_us if len(pieces) > 1 else None
    return [
        {"piece": number, **row, "reset_us": None if number else reset_us} for number, row in enumerate(kept)
    ]


def _summary(metric: Metric, rows: Sequence[Row]) -> dict[str, object]:
    points = [point_of(metric, row) for row in rows if is_point(row, metric.input, metric.where)]
    total = zero_of(metric)
    earlier = None
    for point in points:
        total = add_point(metric, total, earlier, point)
        earlier = point
    kind, other = ("int", "float") if metric.type is ColumnType.INT64 else ("float", "int")
    first, last = (points[0], points[-1]) if points else (None, None)
    return {
        "readings": len(rows),
        "first_reading_us": rows[0].event_us,
        "last_reading_us": rows[-1].event_us,
        "points": len(points),
        f"total_{kind}": total,
        f"total_{other}": None,
        "first_us": first and first.us,
        f"first_{kind}": None if first is None else first.x,
        f"first_{other}": None,
        "first_break": first and first.at_break,
        "last_us": last and last.us,
        f"last_{kind}": None if last is None else last.x,
        f"last_{other}": None,
        "last_break": last and last.at_break,
        "first_reset": key_text(rows[0], metric.reset_on),
        "last_reset": key_text(rows[-1], metric.reset_on),
    }
