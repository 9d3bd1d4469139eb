"""One file read into memory for a look at it: the same kernels as the pipeline's, nothing written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from disarray.kernels.fragments import FragmentFile, FragmentWriter
from disarray.kernels.reading import read_file
from disarray.kernels.readings import readings_schema
from disarray.model.format import POSITION

if TYPE_CHECKING:
    from disarray.kernels.outcome import ReadOutcome, ReadRequest


@dataclass(frozen=True, slots=True)
class Preview:
    """What one read of a file gave; `table` holds the new readings in the order of the file."""

    outcome: ReadOutcome
    table: pa.Table


def preview_file(request: ReadRequest) -> Preview:
    """Read a file as a worker would and keep its readings in memory; only for files that fit there."""
    writer = _MemoryWriter(request)
    outcome = read_file(request, writer)
    table = pa.concat_tables([readings_schema(request.spec).empty_table(), *writer.tables])
    return Preview(outcome, table.sort_by(POSITION))


class _MemoryWriter(FragmentWriter):
    """Keeps what would be written."""

    def __init__(self, request: ReadRequest) -> None:
        super().__init__("memory", request.spec)
        self.tables: list[pa.Table] = []

    def write(self, table: pa.Table) -> int:
        self.tables.append(table)
        self.row_groups = len(self.tables)
        return self.row_groups - 1

    def close(self) -> FragmentFile | None:
        return None
