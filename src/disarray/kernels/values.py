"""One cell as a typed value, exactly as the rule says: the slow way that settles every doubt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, assert_never

from disarray.kernels.numbers import BLANKS
from disarray.kernels.rejects import RejectReason, RowRejected
from disarray.kernels.times import parse_stamp
from disarray.kernels.zones import END_EVENT_US, FIRST_EVENT_US
from disarray.model.format import ColumnType, Nonfinite

if TYPE_CHECKING:
    from disarray.kernels.numbers import NumberSyntax
    from disarray.kernels.zones import ZoneTable
    from disarray.model.format import Column, Format

ExactValue = float | int | str | bool | None


def read_value(
    text: str, column: Column, fmt: Format, numbers: NumberSyntax, zone: ZoneTable | None
) -> ExactValue:
    """The value of one cell; timestamps as UTC microseconds. A row with a cell that has none is rejected."""
    verbatim = column.type is ColumnType.STRING and not fmt.strip
    value = None if is_null(text, fmt, verbatim=verbatim) else _convert(text, column, fmt, numbers, zone)
    if value is None and not column.nullable:
        raise RowRejected(RejectReason.MISSING_VALUE, column.name)
    return value


def is_null(text: str, fmt: Format, *, verbatim: bool = False) -> bool:
    """Whether a cell says that there is no value; blanks around it count only if it is taken verbatim."""
    stripped = text if verbatim else text.strip(BLANKS)
    return not stripped or text in fmt.null_tokens or stripped in fmt.null_tokens


def _convert(
    text: str, column: Column, fmt: Format, numbers: NumberSyntax, zone: ZoneTable | None
) -> ExactValue:
    try:
        match column.type:
            case ColumnType.FLOAT64:
                return _float(numbers.exact_float(text), column)
            case ColumnType.INT64:
                return numbers.exact_int(text)
            case ColumnType.STRING:
                return text.strip(BLANKS) if fmt.strip else text
            case ColumnType.BOOL:
                return _bool(text.strip(BLANKS), fmt)
            case ColumnType.TIMESTAMP:
                return _timestamp(text, column, numbers, zone)
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


def _timestamp(text: str, column: Column, numbers: NumberSyntax, zone: ZoneTable | None) -> int:
    stamp = parse_stamp(text, column.layouts, numbers=numbers, start_us=None)
    if not FIRST_EVENT_US <= stamp.us < END_EVENT_US:
        raise RowRejected(RejectReason.TIME_OUT_OF_RANGE)
    if not stamp.is_local:
        return stamp.us
    assert zone is not None, "a local layout comes with a zone"
    instant = zone.instant(stamp.us)
    if instant is None:
        raise RowRejected(RejectReason.NONEXISTENT_LOCAL_TIME)
    return instant
