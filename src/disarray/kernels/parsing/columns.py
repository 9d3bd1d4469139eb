"""Whole columns at once: what Arrow read, finished to the declared types, with doubtful rows marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.kernels.parsing.numbers import BLANKS
from disarray.kernels.parsing.times import StampColumn, parse_stamps
from disarray.kernels.parsing.zones import END_EVENT_US, FIRST_EVENT_US
from disarray.model.description.format import ColumnType, Nonfinite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.kernels.parsing.cell_values import CellRules, ExactValue
    from disarray.model.description.format import Column, Format

ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.FLOAT64: pa.float64(),
    ColumnType.INT64: pa.int64(),
    ColumnType.STRING: pa.string(),
    ColumnType.BOOL: pa.bool_(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}


_COARSE_UNITS_US = {"s": 1_000_000, "ms": 1_000}


@dataclass(frozen=True, slots=True)
class FinishedColumn:
    """Values of the declared type; rows in `doubtful` (None: no row) have to be read exactly."""

    values: pa.Array[Any]
    doubtful: NDArray[np.bool_] | None = None


def finish_column(raw: pa.Array[Any], column: Column, *, rules: CellRules) -> FinishedColumn:
    """Turn a column as read (text, or already typed by Arrow) into the declared one."""
    fmt, numbers = rules.format, rules.numbers
    is_text = pa.types.is_string(raw.type)
    match column.type:
        case ColumnType.STRING:
            finished = FinishedColumn(trimmed(raw, fmt) if fmt.strip else raw)
        case ColumnType.FLOAT64:
            finished = _finish_floats(*_numeric(raw, is_text, fmt, numbers.column_of_floats), column)
        case ColumnType.INT64:
            finished = FinishedColumn(*_numeric(raw, is_text, fmt, numbers.column_of_ints))
        case ColumnType.BOOL:
            finished = _finish_bools(raw, fmt) if is_text else FinishedColumn(raw)
        case ColumnType.TIMESTAMP:
            finished = _finish_timestamps(raw, column, rules)
        case _:
            assert_never(column.type)
    if not column.nullable and finished.values.null_count:
        return FinishedColumn(finished.values, _either(finished.doubtful, _mask(finished.values.is_null())))
    return finished


def exact_column(values: Sequence[ExactValue], column: Column) -> pa.Array[Any]:
    """A column of values that were read one by one."""
    arrow_type = ARROW_TYPES[column.type]
    if column.type is ColumnType.TIMESTAMP:
        return pa.array(values, pa.int64()).cast(arrow_type)
    return pa.array(values, arrow_type)


def constant_column(value: ExactValue, column: Column, rows: int) -> pa.Array[Any]:
    """The same value in every row."""
    return pa.repeat(exact_column([value], column)[0], rows)


def stamps_of(array: pa.Array[Any]) -> StampColumn:
    """Stamps that come typed: local where they carry no zone, digits beyond the microsecond cut off."""
    if not array.null_count and array.type.unit == "us":
        # As Arrow's CSV parser gives them; nothing to convert, and nothing to fill.
        us = array.view(pa.int64()).to_numpy()
        return StampColumn(us, np.full(len(us), array.type.tz is None), np.ones(len(us), dtype=np.bool_))
    ok = array.is_valid().to_numpy(zero_copy_only=False)
    if array.type.unit in _COARSE_UNITS_US:
        # Multiplied as it is, an instant far beyond any date would come round to a year that may well be ours.
        unit_us = _COARSE_UNITS_US[array.type.unit]
        furthest = np.iinfo(np.int64).max // unit_us
        us = np.clip(array.cast(pa.int64()).fill_null(0).to_numpy(), -furthest, furthest) * unit_us
    else:
        us = (
            array.cast(pa.timestamp("us", tz=array.type.tz), safe=False)
            .cast(pa.int64())
            .fill_null(0)
            .to_numpy()
        )
    return StampColumn(us, np.full(len(us), array.type.tz is None), ok)


def trimmed(text: pa.Array[Any], fmt: Format) -> pa.Array[Any]:
    """Without the blanks around each cell, and null where that leaves a null token."""
    bare = pc.ascii_trim(text, BLANKS)
    tokens = pa.array(["", *fmt.null_tokens], pa.string())
    null = pc.is_in(bare, tokens)
    return pc.if_else(null, pa.scalar(None, pa.string()), bare) if _mask(null).any() else bare


def _numeric(
    raw: pa.Array[Any], is_text: bool, fmt: Format, convert: Any
) -> tuple[pa.Array[Any], NDArray[np.bool_] | None]:
    if not is_text:
        return raw, None
    text = trimmed(raw, fmt)
    values = convert(text)
    failed = _mask(values.is_null()) & ~_mask(text.is_null())
    return values, failed if failed.any() else None


def _finish_floats(raw: pa.Array[Any], doubtful: NDArray[np.bool_] | None, column: Column) -> FinishedColumn:
    values = np.frombuffer(raw.buffers()[1], dtype=np.float64)[raw.offset : raw.offset + len(raw)]
    null = _mask(raw.is_null()) if raw.null_count else None
    with np.errstate(over="ignore", invalid="ignore"):
        if column.is_converted:
            values = values * column.scale + column.offset
        values = values + 0.0
    if null is not None:
        # The slots under nulls hold whatever was there; digests and bit-equality want one value.
        values[null] = 0.0
    finite = np.isfinite(values)
    if not finite.all():
        values[~finite] = 0.0
        if column.nonfinite is Nonfinite.NULL:
            null = _either(null, ~finite)
        else:
            doubtful = _either(doubtful, ~finite)
    return FinishedColumn(pa.array(values, mask=null), doubtful)


def _finish_bools(raw: pa.Array[Any], fmt: Format) -> FinishedColumn:
    text = trimmed(raw, fmt)
    true = pc.is_in(text, pa.array(fmt.true_tokens, pa.string()))
    false = pc.is_in(text, pa.array(fmt.false_tokens, pa.string()))
    known = _mask(pc.or_(true, false))
    values = pc.if_else(pa.array(known), true, pa.scalar(None, pa.bool_()))
    failed = ~known & ~_mask(text.is_null())
    return FinishedColumn(values, failed if failed.any() else None)


def _finish_timestamps(raw: pa.Array[Any], column: Column, rules: CellRules) -> FinishedColumn:
    if pa.types.is_timestamp(raw.type):
        stamps = stamps_of(raw)
        null = ~stamps.ok
    else:
        text = trimmed(raw, rules.format)
        stamps = parse_stamps(text.fill_null(""), column.layouts, numbers=rules.numbers, start_us=None)
        null = _mask(text.is_null())
    us = stamps.us.copy()
    good = stamps.ok & (us >= FIRST_EVENT_US) & (us < END_EVENT_US)
    local = np.flatnonzero(good & stamps.is_local)
    if len(local):
        assert rules.zone is not None, "a local layout comes with a zone"
        us[local], in_gap = rules.zone.earlier(us[local])
        if in_gap is not None:
            good[local[in_gap]] = False
    failed = ~good & ~null
    us[~good] = 0
    values = pa.array(us, mask=~good).cast(ARROW_TYPES[ColumnType.TIMESTAMP])
    return FinishedColumn(values, failed if failed.any() else None)


def _mask(array: Any) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = array.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _either(first: NDArray[np.bool_] | None, second: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return second if first is None else first | second
