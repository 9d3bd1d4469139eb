"""Parquet files as a source: position is the row number, and any change reads the file again."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.binding import Binding, bind_header
from disarray.kernels.parsing.candidates import Candidates, Disposition
from disarray.kernels.parsing.columns import ARROW_TYPES, constant_column, finish_column, stamps_of, trimmed
from disarray.kernels.parsing.readings import count_dispositions, place_in_time
from disarray.kernels.parsing.rejects import RejectLog, RejectReason
from disarray.kernels.parsing.times import StampColumn, parse_stamps
from disarray.kernels.reading.blocks import BlockReader, ReadCost
from disarray.kernels.reading.parquet_cells import row_sample, undecodable_rows, without_cells
from disarray.kernels.reading.parquet_pages import check_footer, page_sizes
from disarray.kernels.reading.splitting import Splitter
from disarray.kernels.reading.stretches import Stretch, builder_for, greatest, least
from disarray.model.description.format import EVENT_US, ColumnType
from disarray.model.fingerprints import NO_LINES, Checkpoint, FoldMark, LineCounts, Tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from disarray.kernels.fragments.fragment_writer import FragmentBuilder, FragmentSink
    from disarray.kernels.reading.outcome import ReadRequest
    from disarray.model.description.format import Column
    from disarray.model.description.read_spec import ReadSpec

_BATCH_ROWS = 1 << 16
# What the rows of one batch may unpack to, and what those of a whole file may beside its size. No instrument's numbers
# shrink two-hundredfold; below the floor the ratio of a short file means nothing.
_BATCH_BYTES = 32 << 20
_DECODED_FLOOR_BYTES = 512 << 20
_MAX_RATIO = 200
_MOST_FIXED_BYTES = 256
_TEXTS = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
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
    builder = builder_for(request, sink)
    rows = _RowReader(request, builder)
    cost.bytes_read += size
    for batch in _batches(request.spec, descriptor, size):
        rows.take(batch)
    rows.builder.cut()
    return Stretch(
        hashes=tuple(blocks.hashes),
        checkpoints=(),
        end=Checkpoint(
            line=rows.counts.seen + 1,
            counts=rows.counts,
            first_us=rows.first_us,
            last_us=rows.last_us,
            parts=builder.marks if isinstance(builder, Splitter) else (),
        ),
        counts=rows.counts,
        first_us=rows.first_us,
        last_us=rows.last_us,
        tail=Tail.NONE,
        fragments=() if isinstance(builder, Splitter) else tuple(builder.fragments),
        log=rows.log,
        cost=cost,
        parts=builder.marks if isinstance(builder, Splitter) else (),
        part_fragments=builder.fragments if isinstance(builder, Splitter) else {},
    )


def _batches(spec: ReadSpec, descriptor: int, size: int) -> Iterator[pa.RecordBatch]:
    """The rows of the columns that are read, as many at a time as fit the budget, whatever they unpack to."""
    decoded = 0
    try:
        check_footer(descriptor, size)
        with os.fdopen(os.dup(descriptor), "rb") as stream, pq.ParquetFile(stream) as footer:
            header = tuple(footer.schema_arrow.names)
            binding = bind_header(spec, header, {})
            cells = {
                *binding.time_cells,
                *(bound.cell for bound in binding.columns if bound.cell is not None),
            }
            names = [header[cell] for cell in sorted(cells)]
            rows, in_dictionary = _rows_at_a_time(descriptor, footer, names)
            with pq.ParquetFile(stream, metadata=footer.metadata, read_dictionary=in_dictionary) as file:
                raw = file.iter_batches(rows, columns=names, use_threads=False)
                for batch in _of_good_size(chain.from_iterable(map(_decoded, raw))):
                    decoded += batch.nbytes
                    if decoded > max(_DECODED_FLOOR_BYTES, _MAX_RATIO * size):
                        raise UnreadableFileError(
                            f"its rows take more than {_MAX_RATIO} times the size of the file ({decoded:,} bytes so "
                            "far) and look like a decompression bomb; nothing of it is kept. Cut it into several "
                            "files if it is none"
                        )
                    yield batch
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        # The last of them is about the name of a column.
        raise UnreadableFileError(f"is not a whole Parquet file: {error}") from error


def _rows_at_a_time(descriptor: int, file: pq.ParquetFile, names: Sequence[str]) -> tuple[int, list[str]]:
    """How many rows can be unpacked together, and the columns to be kept as indexes into their dictionary."""
    schema = file.schema_arrow
    leaves = {file.schema.column(at).path: at for at in range(len(file.schema))}
    per_row = 0.0
    in_dictionary = []
    for name in names:
        if schema.names.count(name) > 1:
            raise UnreadableFileError(f"it has several columns called {name}")
        type_ = schema.field(name).type
        width = type_.byte_width if pa.types.is_fixed_size_binary(type_) else 0
        if pa.types.is_nested(type_) or name not in leaves or width > _MOST_FIXED_BYTES:
            raise UnreadableFileError(f"column {name} is of type {type_}, which is no single value")
        if file.schema.column(leaves[name]).physical_type != "BYTE_ARRAY":
            continue
        sizes = page_sizes(descriptor, file.metadata, leaves[name])
        per_row += sizes.bytes_per_value
        if sizes.has_dictionary:
            in_dictionary.append(name)
    return max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / max(1.0, per_row)))), in_dictionary


def _decoded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows with their text written out, in pieces: a dictionary of one long text stands for any amount."""
    lengths = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if not pa.types.is_dictionary(column.type):
            continue
        _check_indexes(column)
        if len(column.dictionary):
            of_each = pc.binary_length(column.dictionary).fill_null(0).to_numpy(zero_copy_only=False)
            lengths += of_each[column.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    start, upto = 0, np.cumsum(lengths)
    while start < batch.num_rows:
        before = int(upto[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(upto, before + _BATCH_BYTES, side="right")))
        piece = batch.slice(start, end - start)
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in piece.columns
        ]
        yield pa.record_batch(columns, names=batch.schema.names)
        start = end


def _check_indexes(column: pa.DictionaryArray[Any]) -> None:
    """Of a damaged page they may be anything, and Arrow takes them as they come."""
    edges = pc.min_max(column.indices).as_py()
    if edges["max"] is not None and not 0 <= edges["min"] <= edges["max"] < len(column.dictionary):
        raise UnreadableFileError(
            f"is not a whole Parquet file: its pages name entries {edges['min']} to {edges['max']} of a dictionary of "
            f"{len(column.dictionary)}"
        )


def _of_good_size(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small pieces side by side: every call costs as much as a thousand rows."""
    held: list[pa.RecordBatch] = []
    rows = bytes_ = 0
    for piece in pieces:
        if held and (rows + piece.num_rows > _BATCH_ROWS or bytes_ + piece.nbytes > _BATCH_BYTES):
            yield pa.concat_batches(held)
            held, rows, bytes_ = [], 0, 0
        held.append(piece)
        rows, bytes_ = rows + piece.num_rows, bytes_ + piece.nbytes
    if held:
        yield pa.concat_batches(held)


@dataclass(slots=True)
class _RowReader:
    request: ReadRequest
    builder: FragmentBuilder | Splitter
    log: RejectLog = field(default_factory=RejectLog)
    counts: LineCounts = NO_LINES
    folds: tuple[FoldMark, ...] = ()
    first_us: int | None = None
    last_us: int | None = None

    def take(self, taken: pa.RecordBatch) -> None:
        spec = self.request.spec
        binding = bind_header(spec, tuple(taken.schema.names), {})
        dispositions = np.zeros(taken.num_rows, dtype=np.uint8)
        first_row = self.counts.seen

        def reject(rows: NDArray[np.int64], reason: RejectReason, column: str | None = None) -> None:
            fresh = rows[dispositions[rows] == Disposition.KEPT]
            dispositions[fresh] = Disposition.REJECTED
            for row in fresh.tolist():
                sample = row_sample(taken, row)
                number = first_row + row
                self.log.add(reason, line=number + 1, offset=number, raw=sample, column=column)

        names = {bound.cell: bound.column.name for bound in binding.columns}
        cells = []
        for at, cell in enumerate(map(_plain, taken.columns)):
            undecodable = undecodable_rows(cell)
            reject(undecodable, RejectReason.UNDECODABLE, names.get(at))
            cells.append(without_cells(cell, undecodable))
        batch = pa.record_batch(cells, names=taken.schema.names)
        stamps = _stamps(batch, spec, binding)
        reject(np.flatnonzero(~stamps.ok), RejectReason.BAD_TIME)
        columns: list[pa.Array[Any]] = []
        for bound in binding.columns:
            if bound.cell is None:
                columns.append(constant_column(bound.constant, bound.column, batch.num_rows))
                continue
            cell = batch.column(bound.cell)
            if cell.type in _TEXTS:
                reject(
                    _overlong(cell, spec.format.max_line_bytes), RejectReason.LINE_TOO_LONG, bound.column.name
                )
            raw = _converted(cell, bound.column)
            finished = finish_column(raw, bound.column, rules=binding.rules)
            columns.append(finished.values)
            if finished.doubtful is not None:
                reject(np.flatnonzero(finished.doubtful), _REASONS[bound.column.type], bound.column.name)
        everything = Candidates(np.arange(batch.num_rows), stamps.us, stamps.is_local, columns)
        candidates = everything.filter(dispositions == Disposition.KEPT)
        positions = np.arange(first_row, first_row + batch.num_rows)
        if isinstance(self.builder, Splitter):
            for table in self.builder.take(candidates, positions=positions, reject=reject):
                self._note_times(table)
            self._count(dispositions)
            return
        placed = place_in_time(
            candidates,
            spec,
            positions=positions,
            folds=self.folds,
            latest_us=self.request.latest_us,
            reject=reject,
        )
        self.folds = placed.folds
        self._count(dispositions)
        if placed.table.num_rows:
            self._note_times(placed.table)
            self.builder.add(placed.table)

    def _note_times(self, table: pa.Table) -> None:
        event_us = table.column(EVENT_US).to_numpy()
        self.first_us = least(self.first_us, int(event_us.min()))
        self.last_us = greatest(self.last_us, int(event_us.max()))

    def _count(self, dispositions: NDArray[np.uint8]) -> None:
        counts = count_dispositions(dispositions)
        self.counts += LineCounts(
            seen=len(dispositions), kept=counts[Disposition.KEPT], rejected=counts[Disposition.REJECTED]
        )


def _plain(array: pa.Array[Any]) -> pa.Array[Any]:
    """The same values without what a program of the writer knows of them."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        return array.cast(pa.large_string() if pa.types.is_string_view(array.type) else pa.large_binary())
    return array


def _stamps(batch: pa.RecordBatch, spec: ReadSpec, binding: Binding) -> StampColumn:
    arrays = [batch.column(cell) for cell in binding.time_cells]
    first = arrays[0]
    if pa.types.is_timestamp(first.type):
        return stamps_of(first)
    text = [trimmed(array.cast(pa.string()), spec.format) for array in arrays]
    joined = text[0] if len(text) == 1 else pc.binary_join_element_wise(*text, " ")
    layouts = spec.event_time.layouts
    return parse_stamps(
        joined.fill_null(""), layouts, numbers=binding.rules.numbers, start_us=binding.start_us
    )


def _overlong(texts: pa.Array[Any], longest: int) -> NDArray[np.int64]:
    lengths = pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
    return np.flatnonzero(lengths > longest)


def _converted(array: pa.Array[Any], column: Column) -> pa.Array[Any]:
    """Text stays text, for the rules of text; all else must fit the declared type as it is."""
    if pa.types.is_dictionary(array.type) or pa.types.is_large_string(array.type):
        array = array.cast(pa.string())
    if pa.types.is_string(array.type):
        return array
    target = ARROW_TYPES[column.type]
    if column.type is ColumnType.TIMESTAMP:
        return array if pa.types.is_timestamp(array.type) else array.cast(pa.string())
    try:
        return array.cast(target)
    except pa.ArrowException as error:
        raise UnreadableFileError(
            f"column {column.name} does not fit {column.type.value}: {error}"
        ) from error
