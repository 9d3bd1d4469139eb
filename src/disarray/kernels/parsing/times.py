"""Whole columns of stamps to microseconds, without a Python step per row.

Stamps are grouped by shape (every digit replaced by 0). A layout sees only digits and fixed characters, so
one match against the shape says for all rows of the group where year, month and so on stand; the rest is
integer arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from disarray.kernels.parsing.layouts import (
    DAY_US,
    SECOND_US,
    Stamp,
    compile_layout,
    exact_stamp,
    text_constants,
)
from disarray.kernels.parsing.numbers import BLANKS, NumberSyntax
from disarray.kernels.parsing.rejects import RejectReason, RowRejected
from disarray.model.description.format import LayoutKind, TimeLayout

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

# A column of honest stamps has a handful of shapes; rows of further shapes take the exact way.
_MAX_SHAPES = 64
_MAX_STAMP_BYTES = 64
_MAX_US = 2.0**62
_DAYS_IN_MONTH = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class StampColumn:
    """Microseconds, local or UTC by row; rows that are not `ok` have to be looked at one by one."""

    us: NDArray[np.int64]
    is_local: NDArray[np.bool_]
    ok: NDArray[np.bool_]


def parse_stamps(
    text: pa.Array, layouts: Sequence[TimeLayout], *, numbers: NumberSyntax, start_us: int | None
) -> StampColumn:
    """Read a column of trimmed stamps by the first layout that fits each row."""
    column = StampColumn(
        np.zeros(len(text), dtype=np.int64),
        np.zeros(len(text), dtype=np.bool_),
        np.zeros(len(text), dtype=np.bool_),
    )
    if any(not layout.is_numeric for layout in layouts):
        for rows, matrix, shape in _shapes(text):
            _parse_group(rows, matrix, shape, layouts, column)
    for layout in layouts:
        if layout.is_numeric and not column.ok.all():
            _parse_numeric(text, layout, column, numbers, start_us)
    return column


def parse_stamp(
    text: str, layouts: Sequence[TimeLayout], *, numbers: NumberSyntax, start_us: int | None
) -> Stamp:
    """Read one stamp exactly, or end the row with `RowRejected`."""
    text = text.strip(BLANKS)
    textual = [layout for layout in layouts if not layout.is_numeric]
    for layout in textual:
        if (stamp := exact_stamp(text, layout)) is not None:
            return stamp
    for layout in layouts:
        if not layout.is_numeric:
            continue
        try:
            scaled = numbers.exact_float(text) * layout.unit.microseconds
        except RowRejected:
            continue
        if abs(scaled) < _MAX_US:
            return Stamp(round(scaled) + _origin(layout, start_us), is_local=False)
    raise RowRejected(RejectReason.BAD_TIME)


def _origin(layout: TimeLayout, start_us: int | None) -> int:
    if layout.kind is LayoutKind.RELATIVE:
        assert start_us is not None, "the start stamp is read before the first row"
        return start_us
    return 0


def _parse_numeric(
    text: pa.Array, layout: TimeLayout, column: StampColumn, numbers: NumberSyntax, start_us: int | None
) -> None:
    values = numbers.column_of_floats(text)
    seconds = values.fill_null(np.nan).to_numpy(zero_copy_only=False)
    # The float times the unit, rounded half to even: exactly what one row does, and exact to the microsecond
    # for any stamp with up to six digits after the point.
    scaled = seconds * layout.unit.microseconds
    fits = ~column.ok & (np.abs(scaled) < _MAX_US)
    column.us[fits] = np.rint(scaled[fits]).astype(np.int64) + _origin(layout, start_us)
    column.ok[fits] = True


def _shapes(text: pa.Array) -> list[tuple[NDArray[np.int64] | None, NDArray[np.uint8], str]]:
    """Group the rows by shape; rows None stands for all of them."""
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    if not len(text) or text.buffers()[2] is None:
        return []
    data = np.frombuffer(text.buffers()[2], dtype=np.uint8)
    lengths = np.diff(offsets)
    groups: list[tuple[NDArray[np.int64] | None, NDArray[np.uint8], str]] = []
    for length in np.unique(lengths).tolist():
        if not 0 < length <= _MAX_STAMP_BYTES:
            continue
        rows = None if (lengths == length).all() else np.flatnonzero(lengths == length)
        if rows is None:
            matrix = data[offsets[0] : offsets[-1]].reshape(len(text), length)
        else:
            matrix = data[offsets[rows][:, None] + np.arange(length)]
        _group_by_shape(rows, matrix, groups)
    return groups


def _group_by_shape(
    rows: NDArray[np.int64] | None,
    matrix: NDArray[np.uint8],
    groups: list[tuple[NDArray[np.int64] | None, NDArray[np.uint8], str]],
) -> None:
    shaped = np.where((matrix - 48) < 10, np.uint8(48), matrix)
    while len(matrix) and len(groups) < _MAX_SHAPES:
        text = shaped[0].tobytes().decode("ascii", "replace")
        equal = shaped == shaped[0]
        if equal.all():
            groups.append((rows, matrix, text))
            return
        same = equal.all(axis=1)
        all_rows = np.arange(len(matrix)) if rows is None else rows
        groups.append((all_rows[same], matrix[same], text))
        rows, matrix, shaped = all_rows[~same], matrix[~same], shaped[~same]


def _parse_group(
    rows: NDArray[np.int64] | None,
    matrix: NDArray[np.uint8],
    shape: str,
    layouts: Sequence[TimeLayout],
    column: StampColumn,
) -> None:
    left = np.ones(len(matrix), dtype=np.bool_)
    for layout in layouts:
        match = None if layout.is_numeric else compile_layout(layout).fullmatch(shape)
        if match is None:
            continue
        us, valid = _combine(matrix, match)
        valid &= left
        chosen = np.flatnonzero(valid) if rows is None else rows[valid]
        column.us[chosen] = us[valid]
        column.is_local[chosen] = text_constants(match).is_local
        column.ok[chosen] = True
        left &= ~valid
        if not left.any():
            return


def _combine(matrix: NDArray[np.uint8], match: re.Match[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    constants = text_constants(match)

    def number(name: str, default: int) -> NDArray[np.int32]:
        start, end = match.span(name) if name in match.re.groupindex else (-1, -1)
        return _digits(matrix, start, end) if start >= 0 else np.asarray(default, dtype=np.int32)

    if "short_year" in match.re.groupindex:
        short = number("short_year", 0)
        year = short + np.where(short >= 69, 1900, 2000).astype(np.int32)
    else:
        year = number("year", 1900)
    day_us, valid = _days_by_run(year, number("month", constants.month), number("day", 1), len(matrix))
    hour = number("hour", 0)
    if "half_hour" in match.re.groupindex:
        half = number("half_hour", 0)
        valid &= (half >= 1) & (half <= 12)
        hour = half % 12 + np.int32(constants.half_day_hours)
    minute, second = number("minute", 0), number("second", 0)
    valid &= (hour <= 23) & (minute <= 59) & (second <= 59)
    us = day_us + ((hour * 60 + minute) * 60 + second).astype(np.int64) * SECOND_US
    if match.re.groupindex.get("offset_hour") and match["offset_hour"]:
        offset_hour, offset_minute = number("offset_hour", 0), number("offset_minute", 0)
        valid &= (offset_hour <= 23) & (offset_minute <= 59)
        us -= constants.offset_sign * (offset_hour * 60 + offset_minute).astype(np.int64) * (60 * SECOND_US)
    if match.re.groupindex.get("fraction") and match["fraction"]:
        start, end = match.span("fraction")
        width = min(end - start, 6)
        us += _digits(matrix, start, start + width) * 10 ** (6 - width)
    return us, valid


def _digits(matrix: NDArray[np.uint8], start: int, end: int) -> NDArray[np.int32]:
    value = matrix[:, start].astype(np.int32) - 48
    for at in range(start + 1, end):
        value *= 10
        value += matrix[:, at]
        value -= 48
    return value


def _days_by_run(
    year: NDArray[np.int32], month: NDArray[np.int32], day: NDArray[np.int32], rows: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The calendar, worked out once for every run of rows on one day: files are mostly in order."""
    key = np.broadcast_to((year * 100 + month) * 100 + day, (rows,))
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    keys = key[first].astype(np.int64)
    years, months, days = keys // 10_000, keys // 100 % 100, keys % 100
    leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    longest = _DAYS_IN_MONTH[np.clip(months, 0, 12)] + (leap & (months == 2))
    valid = (years >= 1) & (months >= 1) & (months <= 12) & (days >= 1) & (days <= longest)
    lengths = np.diff(np.append(first, rows))
    return np.repeat(_days(years, months, days) * DAY_US, lengths), np.repeat(valid, lengths)


def _days(years: NDArray[np.int64], months: NDArray[np.int64], days: NDArray[np.int64]) -> NDArray[np.int64]:
    """Days since 1970, with years that begin in March so that leap days come last."""
    from_march = years - (months <= 2)
    in_year = (153 * ((months + 9) % 12) + 2) // 5 + days - 1
    return from_march * 365 + from_march // 4 - from_march // 100 + from_march // 400 + in_year - 719_468
