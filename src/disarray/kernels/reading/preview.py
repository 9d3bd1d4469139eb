"""One file read into memory for a look at it: the same kernels as the pipeline's, nothing written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from disarray.kernels.fragments.fragment_writer import MemorySink
from disarray.kernels.parsing.readings import readings_schema
from disarray.kernels.reading.file_reader import read_file
from disarray.model.description.format import POSITION

if TYPE_CHECKING:
    from disarray.kernels.reading.outcome import ReadOutcome, ReadRequest


@dataclass(frozen=True, slots=True)
class Preview:
    """What one read of a file gave; `table` holds the new readings in the order of the file."""

    outcome: ReadOutcome
    table: pa.Table


def preview_file(request: ReadRequest) -> Preview:
    """Read a file as a worker would and keep its readings in memory; only for files that fit there."""
    sink = MemorySink()
    outcome = read_file(request, sink)
    table = pa.concat_tables([readings_schema(request.spec).empty_table(), *sink.tables])
    return Preview(outcome, table.sort_by(POSITION))
