"""Rollups: aggregates over windows of local time, as declared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from disarray.errors import DurationError
from disarray.model.description.format import ColumnType
from disarray.model.description.spec_expressions import condition, expression
from disarray.model.description.spec_table import MisfitError
from disarray.model.description.spec_values import choice, name, zone
from disarray.model.duration import DAY, parse_duration
from disarray.model.expression.type_check import NUMERIC, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.description.spec_table import Table
    from disarray.model.expression.tree import Expression


class BucketKind(StrEnum):
    """How windows are cut; all but `clock` follow the calendar of the zone."""

    CLOCK = "clock"  # minutes or hours that divide a day, counted from local midnight
    DAY = "day"
    WEEK = "week"  # from Monday
    MONTH = "month"
    SHIFTS = "shifts"


@dataclass(frozen=True, slots=True)
class Shift:
    """A named part of the working day, until the next one starts."""

    name: str
    start: time


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The windows of a rollup: `length_us` for clock, `shifts` for shifts."""

    kind: BucketKind
    zone: str
    length_us: int | None = None
    shifts: tuple[Shift, ...] = ()


class AggregateFunction(StrEnum):
    """What is kept of the readings in a bucket; avg is sum over count at read."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    STDDEV = "stddev"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One number per bucket, over the readings where `where` is true and `input` is not NULL."""

    name: str
    function: AggregateFunction
    input: Expression | None  # None only for count
    where: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """Aggregates over one kind of bucket."""

    name: str
    bucket: Bucket
    aggregates: tuple[Aggregate, ...]


def read_rollup(own_name: str, table: Table, columns: Mapping[str, ColumnType], *, zone_name: str) -> Rollup:
    """A rollup as declared; faults are collected in the table's problems. `zone_name` is the dataset's."""
    fallback: tuple[BucketKind, int | None] = (BucketKind.DAY, None)
    kind, length_us = table.required("bucket", _bucket, fallback)
    bucket = Bucket(
        kind=kind,
        zone=table.optional("zone", zone, zone_name),
        length_us=length_us,
        shifts=_shifts(table, kind),
    )
    aggregates = tuple(
        _aggregate(each, aggregate, columns)
        for each, aggregate in table.tables("aggregates", "aggregate", name=name, shorthand="function")
    )
    if not aggregates:
        table.refuse("aggregates", "expected at least one aggregate, found nothing")
    table.close()
    return Rollup(name=own_name, bucket=bucket, aggregates=aggregates)


def _bucket(value: object) -> tuple[BucketKind, int | None]:
    expected = "'15 min', '1 hour', '1 day', '1 week', '1 month' or 'shifts'"
    if not isinstance(value, str):
        raise MisfitError(expected)
    words = {"shifts": BucketKind.SHIFTS, "1 month": BucketKind.MONTH, "1 week": BucketKind.WEEK}
    if value in words:
        return words[value], None
    try:
        length = parse_duration(value)
    except DurationError as error:
        raise MisfitError(expected, hint=str(error)) from None
    if length == DAY:
        return BucketKind.DAY, None
    if length == 0 or DAY % length:
        raise MisfitError(expected, hint="a bucket shorter than a day must divide the day evenly")
    return BucketKind.CLOCK, length


def _shifts(table: Table, kind: BucketKind) -> tuple[Shift, ...]:
    shifts = []
    for row in table.array("shifts", "shift"):
        shifts.append(Shift(row.required("name", name, "shift"), row.required("start", _clock, time(0))))
        row.close()
    if (kind is BucketKind.SHIFTS) != bool(shifts):
        table.refuse("shifts", "expected shifts with name and start exactly where bucket = 'shifts'")
    if any(later.start <= earlier.start for earlier, later in pairwise(shifts)):
        table.refuse("shifts", "expected starts in ascending order of the day")
    if len({shift.name for shift in shifts}) < len(shifts):
        table.refuse("shifts", "expected each name only once")
    return tuple(shifts)


def _clock(value: object) -> time:
    if isinstance(value, time):
        return value.replace(microsecond=0)
    try:
        if isinstance(value, str) and len(value) in (len("06:00"), len("06:00:00")):
            return time.fromisoformat(value)
    except ValueError:
        pass
    raise MisfitError("a time of day such as '06:00'")


def _aggregate(own_name: str, table: Table, columns: Mapping[str, ColumnType]) -> Aggregate:
    function = table.required("function", choice(AggregateFunction), AggregateFunction.COUNT)
    value = table.optional("input", expression(columns), None)
    where = table.optional("where", condition(columns), None)
    if "input" not in table.values and function is not AggregateFunction.COUNT:
        table.refuse("input", f"expected an expression, found nothing; {function} needs one")
    found = type_of(value, columns) if value is not None else ColumnType.INT64
    if function is not AggregateFunction.COUNT and found not in NUMERIC:
        table.refuse("input", f"expected a number, found an expression of type {found}")
    table.close()
    return Aggregate(name=own_name, function=function, input=value, where=where)
