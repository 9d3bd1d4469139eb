"""Clean lines through Arrow's CSV parser, with proof that row i is line i."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from disarray.kernels.parsing.columns import constant_column, finish_column, stamps_of, trimmed
from disarray.kernels.parsing.times import parse_stamps
from disarray.model.description.format import ColumnType, LayoutKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disarray.kernels.parsing.binding import Binding
    from disarray.kernels.parsing.times import StampColumn
    from disarray.model.description.read_spec import ReadSpec

_ISO_TYPES = {"naive": pa.timestamp("us"), "zoned": pa.timestamp("us", tz="UTC")}


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Typed rows by index among the lines given; lines in `doubtful` have to be read exactly."""

    rows: NDArray[np.int64]
    stamps: StampColumn
    columns: list[pa.Array[Any]]
    doubtful: NDArray[np.int64]


@dataclass(slots=True)
class ArrowRowReader:
    """Reads rows under one header; remembers how stamps turned out to be written, for speed alone."""

    spec: ReadSpec
    binding: Binding
    _iso: Literal["naive", "zoned"] | None = field(default=None)

    def read(self, data: bytes, lines: int) -> ArrowRows | None:
        """Read so many lines; None if Arrow did not see each of them as one row, and the lines must be taken apart.

        A row is never less than a line (stray carriage returns have been set aside), so equal counts mean
        that row i is line i. An open quote makes a row of several lines, and the counts differ.
        """
        invalid: list[int] = []
        table = self._read_typed(data, invalid)
        if table is None:
            table = self._read_table(data, {}, invalid)
        if table is None or table.num_rows + len(invalid) != lines:
            return None
        skipped = np.array(invalid, dtype=np.int64) - 1
        rows = np.arange(lines, dtype=np.int64)
        if invalid:
            rows = np.delete(rows, skipped)
        return self._finish(table, rows, skipped)

    def _read_typed(self, data: bytes, invalid: list[int]) -> pa.Table | None:
        """Let Arrow convert while it parses; None if a single value does not fit."""
        if self._iso is None:
            # A wrong guess costs a second look, which is half the time of a small file.
            self._iso = "zoned" if self._looks_zoned(data) else "naive"
        for attempt in (0, 1):
            try:
                return self._read_table(data, self._direct_types(data), invalid, strict=True)
            except pa.ArrowInvalid as error:
                if attempt or "zone offset" not in str(error):
                    return None
                self._iso = "zoned" if self._iso == "naive" else "naive"
        return None

    def _looks_zoned(self, data: bytes) -> bool:
        """Whether the first stamp names its zone: `Z`, or an offset after the date."""
        cells = data[: data.find(b"\n")].split(self.spec.format.delimiter.encode())
        stamps = [cells[cell].strip(b'" \r') for cell in self.binding.time_cells if cell < len(cells)]
        return any(stamp.endswith(b"Z") or b"+" in stamp or b"-" in stamp[11:] for stamp in stamps)

    def _read_table(
        self, data: bytes, types: dict[int, pa.DataType], invalid: list[int], *, strict: bool = False
    ) -> pa.Table | None:
        fmt = self.spec.format
        invalid.clear()

        def skip(row: csv.InvalidRow) -> str:
            invalid.append(row.number or 0)
            return "skip"

        width = self.binding.width + (1 if fmt.trailing_delimiter else 0)
        wanted = sorted(self._cells())
        if fmt.trailing_delimiter:
            wanted.append(width - 1)
        try:
            return csv.read_csv(
                pa.py_buffer(data),
                read_options=csv.ReadOptions(
                    use_threads=False,
                    block_size=len(data) + 1,
                    column_names=[str(cell) for cell in range(width)],
                ),
                parse_options=csv.ParseOptions(
                    delimiter=fmt.delimiter,
                    quote_char=fmt.quote or False,
                    double_quote=True,
                    ignore_empty_lines=False,
                    invalid_row_handler=skip,
                ),
                convert_options=csv.ConvertOptions(
                    check_utf8=False,
                    include_columns=[str(cell) for cell in wanted],
                    column_types={str(cell): types.get(cell, pa.string()) for cell in wanted},
                    null_values=["", *fmt.null_tokens],
                    true_values=list(fmt.true_tokens),
                    false_values=list(fmt.false_tokens),
                    strings_can_be_null=True,
                    decimal_point=fmt.decimal,
                ),
            )
        except pa.ArrowInvalid:
            if strict:
                raise
            return None

    def _cells(self) -> set[int]:
        return {
            *self.binding.time_cells,
            *(bound.cell for bound in self.binding.columns if bound.cell is not None),
        }

    def _direct_types(self, data: bytes) -> dict[int, pa.DataType]:
        types: dict[int, set[pa.DataType]] = {cell: set() for cell in self._cells()}
        # Arrow reads 0x10 as 16.
        may_be_hex = b"x" in data or b"X" in data
        for bound in self.binding.columns:
            if bound.cell is not None:
                types[bound.cell].add(self._direct_type(bound.column.type, may_be_hex))
        layouts = self.spec.event_time.layouts
        is_iso = len(self.binding.time_cells) == len(layouts) == 1 and layouts[0].kind is LayoutKind.ISO
        for cell in self.binding.time_cells:
            types[cell].add(_ISO_TYPES[self._iso or "naive"] if is_iso else pa.string())
        return {cell: wanted.pop() for cell, wanted in types.items() if len(wanted) == 1}

    def _direct_type(self, kind: ColumnType, may_be_hex: bool) -> pa.DataType:
        grouped = bool(self.spec.format.thousands)
        if kind is ColumnType.FLOAT64 and not grouped:
            return pa.float64()
        if kind is ColumnType.INT64 and not grouped and not may_be_hex:
            return pa.int64()
        return pa.bool_() if kind is ColumnType.BOOL else pa.string()

    def _finish(self, table: pa.Table, rows: NDArray[np.int64], skipped: NDArray[np.int64]) -> ArrowRows:
        binding, fmt = self.binding, self.spec.format
        stamps = self._stamps(table)
        doubtful = ~stamps.ok
        columns: list[pa.Array[Any]] = []
        for bound in binding.columns:
            if bound.cell is None:
                columns.append(constant_column(bound.constant, bound.column, len(rows)))
                continue
            raw = _column(table, bound.cell)
            finished = finish_column(raw, bound.column, rules=binding.rules)
            columns.append(finished.values)
            if finished.doubtful is not None:
                doubtful |= finished.doubtful
        if fmt.trailing_delimiter:
            doubtful |= _column(table, binding.width).is_valid().to_numpy(zero_copy_only=False)
        return ArrowRows(rows, stamps, columns, np.sort(np.concatenate([skipped, rows[doubtful]])))

    def _stamps(self, table: pa.Table) -> StampColumn:
        raw = [_column(table, cell) for cell in self.binding.time_cells]
        if pa.types.is_timestamp(raw[0].type):
            return stamps_of(raw[0])
        texts = [trimmed(cell, self.spec.format) for cell in raw]
        text = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, " ")
        layouts, numbers = self.spec.event_time.layouts, self.binding.rules.numbers
        return parse_stamps(text.fill_null(""), layouts, numbers=numbers, start_us=self.binding.start_us)


def _column(table: pa.Table, cell: int) -> pa.Array[Any]:
    column = table.column(str(cell))
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
