"""One cell as a typed value, exactly as the rule says: the slow way that settles every doubt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from disarray.kernels.parsing.numbers import BLANKS, NumberSyntax
from disarray.kernels.parsing.rejects import RejectReason, RowRejected
from disarray.kernels.parsing.times import parse_stamp
from disarray.kernels.parsing.zones import END_EVENT_US, FIRST_EVENT_US, ZoneTable, load_zone
from disarray.model.description.format import ColumnType, Nonfinite

if TYPE_CHECKING:
    from disarray.model.description.format import Column, Format
    from disarray.model.description.read_spec import ReadSpec

ExactValue = float | int | str | bool | None


@dataclass(frozen=True, slots=True)
class CellRules:
    """How the cells of one file are to be understood, whatever their column."""

    format: Format
    numbers: NumberSyntax
    zone: ZoneTable | None

    @classmethod
    def of(cls, spec: ReadSpec) -> CellRules:
        """The rules that a description implies."""
        fmt, zone = spec.format, spec.event_time.zone
        return cls(fmt, NumberSyntax(fmt.decimal, fmt.thousands), load_zone(zone) if zone else None)


def read_value(text: str, column: Column, *, rules: CellRules) -> ExactValue:
    """The value of one cell; timestamps as UTC microseconds. A row with a cell that has none is rejected."""
    verbatim = column.type is ColumnType.STRING and not rules.format.strip
    value = None if is_null(text, rules.format, verbatim=verbatim) else _convert(text, column, rules)
    if value is None and not column.nullable:
        raise RowRejected(RejectReason.MISSING_VALUE, column.name)
    return value


def is_null(text: str, fmt: Format, *, verbatim: bool = False) -> bool:
    """Whether a cell says that there is no value; blanks around it count only if it is taken verbatim."""
    stripped = text if verbatim else text.strip(BLANKS)
    return not stripped or text in fmt.null_tokens or stripped in fmt.null_tokens


def _convert(text: str, column: Column, rules: CellRules) -> ExactValue:
    try:
        match column.type:
            case ColumnType.FLOAT64:
                return _float(rules.numbers.exact_float(text), column)
            case ColumnType.INT64:
                return rules.numbers.exact_int(text)
            case ColumnType.STRING:
                return text.strip(BLANKS) if rules.format.strip else text
            case ColumnType.BOOL:
                return _bool(text.strip(BLANKS), rules.format)
            case ColumnType.TIMESTAMP:
                return _timestamp(text, column, rules)
            case _:
                assert_never(column.type)
    except RowRejected as rejected:
        raise RowRejected(rejected.reason, column.name) from None


def _float(value: float, column: Column) -> float | None:
    if column.is_converted:
        value = value * column.scale + column.offset
    if math.isfinite(value):
        return value + 0.0
    if column.nonfinite is Nonfinite.NULL:
        return None
    raise RowRejected(RejectReason.NONFINITE)


def _bool(text: str, fmt: Format) -> bool:
    if text in fmt.true_tokens:
        return True
    if text in fmt.false_tokens:
        return False
    raise RowRejected(RejectReason.BAD_BOOLEAN)


def _timestamp(text: str, column: Column, rules: CellRules) -> int:
    stamp = parse_stamp(text, column.layouts, numbers=rules.numbers, start_us=None)
    if not FIRST_EVENT_US <= stamp.us < END_EVENT_US:
        raise RowRejected(RejectReason.TIME_OUT_OF_RANGE)
    if not stamp.is_local:
        return stamp.us
    assert rules.zone is not None, "a local layout comes with a zone"
    instant = rules.zone.instant(stamp.us)
    if instant is None:
        raise RowRejected(RejectReason.NONEXISTENT_LOCAL_TIME)
    return instant
