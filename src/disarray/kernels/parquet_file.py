"""Parquet files as a source: position is the row number, and any change reads the file again."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disarray.errors import UnreadableFileError
from disarray.kernels.binding import Binding, bind_header
from disarray.kernels.blocks import BlockReader, ReadCost
from disarray.kernels.candidates import Candidates, Disposition
from disarray.kernels.columns import ARROW_TYPES, constant_column, finish_column, trim
from disarray.kernels.fragments import FragmentBuilder
from disarray.kernels.readings import count_dispositions, place_in_time
from disarray.kernels.rejects import RejectLog, RejectReason
from disarray.kernels.stretches import Stretch, greatest, least
from disarray.kernels.times import StampColumn, parse_stamps
from disarray.model.fingerprints import Checkpoint, FoldMark, LineCounts, Tail
from disarray.model.format import EVENT_US, ColumnType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from disarray.kernels.fragments import FragmentSink
    from disarray.kernels.outcome import ReadRequest
    from disarray.model.format import Column
    from disarray.model.read_spec import ReadSpec

_BATCH_ROWS = 1 << 16
_REASONS = {
    ColumnType.FLOAT64: RejectReason.NONFINITE,
    ColumnType.INT64: RejectReason.BAD_NUMBER,
    ColumnType.STRING: RejectReason.MISSING_VALUE,
    ColumnType.BOOL: RejectReason.BAD_BOOLEAN,
    ColumnType.TIMESTAMP: RejectReason.BAD_TIME,
}


def read_parquet(request: ReadRequest, descriptor: int, size: int, sink: FragmentSink) -> Stretch:
    """Read a whole Parquet file, a bounded number of rows at a time."""
    cost = ReadCost()
    blocks = BlockReader(descriptor, 0, size, cost)
    for _ in blocks:
        pass
    rows = _RowReader(request, FragmentBuilder(request.spec, sink))
    cost.bytes_read += size
    for batch in _batches(request.spec, descriptor):
        rows.take(batch)
    rows.builder.cut()
    return Stretch(
        hashes=tuple(blocks.hashes),
        checkpoints=(),
        end=Checkpoint(
            line=rows.counts.seen + 1, counts=rows.counts, first_us=rows.first_us, last_us=rows.last_us
        ),
        counts=rows.counts,
        first_us=rows.first_us,
        last_us=rows.last_us,
        tail=Tail.NONE,
        fragments=tuple(rows.builder.fragments),
        log=rows.log,
        cost=cost,
    )


def _batches(spec: ReadSpec, descriptor: int) -> Iterator[pa.RecordBatch]:
    try:
        with os.fdopen(os.dup(descriptor), "rb") as stream, pq.ParquetFile(stream) as file:
            header = tuple(file.schema_arrow.names)
            binding = bind_header(spec, header, {})
            cells = {
                *binding.time_cells,
                *(bound.cell for bound in binding.columns if bound.cell is not None),
            }
            names = [header[cell] for cell in sorted(cells)]
            yield from file.iter_batches(_BATCH_ROWS, columns=names, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFileError(f"is not a whole Parquet file: {error}") from error


@dataclass(slots=True)
class _RowReader:
    request: ReadRequest
    builder: FragmentBuilder
    log: RejectLog = field(default_factory=RejectLog)
    counts: LineCounts = LineCounts()
    folds: tuple[FoldMark, ...] = ()
    first_us: int | None = None
    last_us: int | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        spec = self.request.spec
        binding = bind_header(spec, tuple(batch.schema.names), {})
        dispositions = np.zeros(batch.num_rows, dtype=np.uint8)
        first_row = self.counts.seen

        def reject(rows: NDArray[np.int64], reason: RejectReason, column: str | None = None) -> None:
            fresh = rows[dispositions[rows] == Disposition.KEPT]
            dispositions[fresh] = Disposition.REJECTED
            for row in fresh.tolist():
                sample = str(batch.slice(row, 1).to_pylist()[0]).encode()
                number = first_row + row
                self.log.add(reason, line=number + 1, offset=number, raw=sample, column=column)

        stamps = _stamps(batch, spec, binding)
        reject(np.flatnonzero(~stamps.ok), RejectReason.BAD_TIME)
        columns: list[pa.Array[Any]] = []
        for bound in binding.columns:
            if bound.cell is None:
                columns.append(constant_column(bound.constant, bound.column, batch.num_rows))
                continue
            raw = _converted(batch.column(bound.cell), bound.column)
            finished = finish_column(raw, bound, spec.format, binding.numbers, binding.zone)
            columns.append(finished.values)
            if finished.doubtful is not None:
                reject(np.flatnonzero(finished.doubtful), _REASONS[bound.column.type], bound.column.name)
        everything = Candidates(np.arange(batch.num_rows), stamps.us, stamps.is_local, columns)
        placed = place_in_time(
            everything.filter(dispositions == Disposition.KEPT),
            spec,
            positions=np.arange(first_row, first_row + batch.num_rows),
            folds=self.folds,
            latest_us=self.request.latest_us,
            reject=reject,
        )
        self.folds = placed.folds
        self._count(dispositions)
        if placed.table.num_rows:
            event_us = placed.table.column(EVENT_US).to_numpy()
            self.first_us = least(self.first_us, int(event_us.min()))
            self.last_us = greatest(self.last_us, int(event_us.max()))
            self.builder.add(placed.table)

    def _count(self, dispositions: NDArray[np.uint8]) -> None:
        counts = count_dispositions(dispositions)
        self.counts += LineCounts(
            seen=len(dispositions), kept=counts[Disposition.KEPT], rejected=counts[Disposition.REJECTED]
        )


def _stamps(batch: pa.RecordBatch, spec: ReadSpec, binding: Binding) -> StampColumn:
    arrays = [batch.column(cell) for cell in binding.time_cells]
    first = arrays[0]
    if pa.types.is_timestamp(first.type):
        us = first.cast(pa.timestamp("us", tz=first.type.tz), safe=False).cast(pa.int64())
        ok = first.is_valid().to_numpy(zero_copy_only=False)
        return StampColumn(us.fill_null(0).to_numpy(), np.full(len(ok), first.type.tz is None), ok)
    text = [trim(array.cast(pa.string())) for array in arrays]
    joined = text[0] if len(text) == 1 else pc.binary_join_element_wise(*text, " ")
    layouts = spec.event_time.layouts
    return parse_stamps(joined.fill_null(""), layouts, numbers=binding.numbers, start_us=binding.start_us)


def _converted(array: pa.Array[Any], column: Column) -> pa.Array[Any]:
    """Text stays text, for the rules of text; all else must fit the declared type as it is."""
    if pa.types.is_dictionary(array.type) or pa.types.is_large_string(array.type):
        array = array.cast(pa.string())
    if pa.types.is_string(array.type):
        return array
    target = ARROW_TYPES[column.type]
    if column.type is ColumnType.TIMESTAMP:
        return array.cast(pa.timestamp("us", tz="UTC"), safe=False).cast(pa.string())
    try:
        return array.cast(target)
    except pa.ArrowException as error:
        raise UnreadableFileError(
            f"column {column.name} does not fit {column.type.value}: {error}"
        ) from error
