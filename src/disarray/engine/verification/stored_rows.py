"""Rows of the catalog in a file that tasks read: the driver holds a batch of them at a time, whatever a subject has."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.engine.verification.comparison import Comparison

ROWS_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Some rows of a subject, beside others perhaps, and the span of their segments."""

    number: int
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Where the rows of one subject lie."""

    path: str
    row_groups: tuple[RowGroup, ...] = ()

    def between(self, start_us: int | None, end_us: int | None) -> StoredRows:
        """Those of them that may be of segments from `start_us` on, before `end_us`."""
        return StoredRows(
            self.path,
            tuple(
                each
                for each in self.row_groups
                if (start_us is None or each.last_us >= start_us)
                and (end_us is None or each.first_us < end_us)
            ),
        )


class StoredRowsWriter:
    """One table of the catalog for some subjects, one row group after the other."""

    def __init__(self, path: str, comparison: Comparison) -> None:
        self._path = path
        self._schema = comparison.schema
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[Sequence[Any]] = []
        self._row_groups: dict[str, list[RowGroup]] = defaultdict(list)
        self._count = 0

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Rows with the columns of the comparison, in the order of its schema; those of a subject by segment."""
        self._waiting += rows
        if len(self._waiting) >= ROWS_AT_ONCE:
            self._flush()

    def close(self) -> Mapping[str, StoredRows]:
        """Where the rows of each subject lie."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        return {key: StoredRows(self._path, tuple(found)) for key, found in self._row_groups.items()}

    def _flush(self) -> None:
        if not self._waiting:
            return
        columns = zip(*self._waiting, strict=True)
        arrays = [pa.array(values, each.type) for values, each in zip(columns, self._schema, strict=True)]
        self._waiting = []
        table = pa.table(arrays, schema=self._schema)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        spans = table.group_by("subject_key").aggregate([("segment_us", "min"), ("segment_us", "max")])
        for row in spans.to_pylist():
            self._row_groups[row["subject_key"]].append(
                RowGroup(self._count, row["segment_us_min"], row["segment_us_max"])
            )
        self._count += 1


class StoredRowsReader:
    """Reads rows of many subjects; the row group that was read last is kept, for the next subject may share it."""

    def __init__(self) -> None:
        self._files: dict[str, pq.ParquetFile] = {}
        self._last: tuple[str, int, pa.Table] | None = None

    def read(
        self,
        rows: StoredRows,
        comparison: Comparison,
        *,
        subject_key: str,
        start_us: int | None = None,
        end_us: int | None = None,
    ) -> pa.Table:
        """The rows of one subject, of segments from `start_us` on, before `end_us`."""
        tables = [comparison.schema.empty_table()]
        for each in rows.between(start_us, end_us).row_groups:
            table = self._row_group(rows.path, each.number)
            wanted = pc.equal(table.column("subject_key"), subject_key)
            segment_us = table.column("segment_us")
            if start_us is not None:
                wanted = pc.and_(wanted, pc.greater_equal(segment_us, start_us))
            if end_us is not None:
                wanted = pc.and_(wanted, pc.less(segment_us, end_us))
            tables.append(table.filter(wanted))
        return pa.concat_tables(tables)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _row_group(self, path: str, number: int) -> pa.Table:
        if self._last is None or self._last[:2] != (path, number):
            if path not in self._files:
                self._files[path] = pq.ParquetFile(path)
            self._last = path, number, self._files[path].read_row_group(number, use_threads=False)
        return self._last[2]
