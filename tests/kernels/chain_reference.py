"""How segments join: bases from summaries as SQL computes them, and the same law reading by reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.kernels.scanning.running_values import Base
from disarray.model.description.format import ColumnType
from disarray.model.description.metrics import MetricKind
from tests.kernels.scan_reference import (
    Number,
    Point,
    Row,
    add_point,
    is_point,
    join,
    junction,
    key_text,
    point_of,
    step,
    zero_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.model.description.metrics import Metric


def bases_from_summaries(
    metric: Metric, segments: Sequence[Mapping[int, Mapping[str, Any]]]
) -> list[Base | None]:
    """By segment the base of one channel; a segment is its summary rows by piece, empty without readings.

    delta = total of the segment before + junction; base = base before + delta. An island begins where a history does,
    or at a reset: there the base is zero.
    """
    zero = zero_of(metric)
    base, total = zero, zero
    last_point: Point | None = None
    last_key: str | None = None
    begun = False
    found: list[Base | None] = []
    for pieces in segments:
        if not pieces:
            found.append(None)
            continue
        first = pieces[0]
        if not begun or first["first_reset"] != last_key:
            before, base, last_point = zero, zero, None
        else:
            before = join(metric, base, total)
            bridge = zero
            if first["points"] and metric.kind not in (MetricKind.MIN, MetricKind.MAX):
                bridge = (
                    0 if last_point is None else junction(metric, last_point, _point(metric, first, "first"))
                )
            base = join(metric, base, join(metric, total, bridge))
        begun = True
        found.append(Base(before, base))
        last = pieces[max(pieces)]
        if len(pieces) == 2:
            base, last_point = zero, None
        total = last[f"total_{_kind(metric)}"]
        if last["points"]:
            last_point = _point(metric, last, "last")
        last_key = last["last_reset"]
    return found


def _kind(metric: Metric) -> str:
    return "int" if metric.type is ColumnType.INT64 else "float"


def _point(metric: Metric, row: Mapping[str, Any], which: str) -> Point:
    return Point(row[f"{which}_us"], row[f"{which}_{_kind(metric)}"], row[f"{which}_break"])


@dataclass
class _Walk:
    """Where a walk along one channel's readings stands."""

    base: Number | None  # of the segment, or of nothing after a reset in it
    total: Number | None  # folded since the base
    last_point: Point | None = None
    own_point: Point | None = None  # the last one within the segment
    key: str | None = None


def values_reading_by_reading(metric: Metric, segments: Sequence[Sequence[Row]]) -> list[list[Number | None]]:
    """The value at every reading of one channel, by segment, in one walk."""
    zero = zero_of(metric)
    at = _Walk(zero, zero)
    begun = False
    shown: list[list[Number | None]] = []
    for rows in segments:
        shown.append([])
        carried: tuple[Number | None, Number | None] | None = (at.base, at.total) if begun else None
        if rows and begun:
            at.base, at.total, at.own_point = join(metric, at.base, at.total), zero, None
        for row in rows:
            key = key_text(row, metric.reset_on)
            if begun and key != at.key:
                at, carried = _Walk(zero, zero), None
            begun, at.key = True, key
            if is_point(row, metric.input, metric.where):
                point = point_of(metric, row)
                if carried is not None and at.own_point is None:
                    at.base = _bridged(metric, carried, at.last_point, point)
                at.total = add_point(metric, at.total, at.own_point, point)
                at.last_point = at.own_point = point
            shown[-1].append(join(metric, at.base, at.total))
    return shown


def _bridged(
    metric: Metric, carried: tuple[Number | None, Number | None], earlier: Point | None, point: Point
) -> Number | None:
    base, total = carried
    if metric.kind in (MetricKind.MIN, MetricKind.MAX):
        return join(metric, base, total)
    bridge = 0 if earlier is None else junction(metric, earlier, point)
    return join(metric, base, join(metric, total, bridge))


def values_in_one_pass(metric: Metric, rows: Sequence[Row]) -> tuple[list[Number | None], Number]:
    """The value at every reading with no segments at all, and the sum of all step sizes since the last reset."""
    zero = zero_of(metric)
    value, earlier, key, sizes = zero, None, None, 0.0
    shown: list[Number | None] = []
    largest = 0.0
    for number, row in enumerate(rows):
        if number and key_text(row, metric.reset_on) != key:
            value, earlier, sizes = zero, None, 0.0
        key = key_text(row, metric.reset_on)
        if is_point(row, metric.input, metric.where):
            point = point_of(metric, row)
            if metric.kind not in (MetricKind.MIN, MetricKind.MAX):
                sizes += abs(step(metric, earlier, point))
            value = add_point(metric, value, earlier, point)
            earlier = point
        largest = max(largest, sizes)
        shown.append(value)
    return shown, largest
