"""The kernel that reads sources afresh into scratch files, from which tasks take the readings of some segments."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from disarray.engine.verification.selection import EVERYTHING, Selection
from disarray.errors import DisarrayError
from disarray.kernels.parsing.readings import readings_schema
from disarray.kernels.reading.file_reader import read_file
from disarray.kernels.reading.opening import open_beneath
from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.description.format import EVENT_US, POSITION
from disarray.model.fingerprints import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.kernels.fragments.fragment_writer import Fragment, FragmentSink
    from disarray.kernels.reading.outcome import ReadOutcome, ReadRequest
    from disarray.model.description.read_spec import ReadSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead:
    """One accepted file as it was taken in: `size` bytes of this content, less what is parked or lay in the future."""

    subject_key: str
    source_uri: str
    generation: int
    size: int
    content_hash: str
    request: ReadRequest
    left_out: tuple[tuple[int, int, int], ...]  # segment, first and last position
    sealed: tuple[int, ...]  # segments of which nothing is kept that it could be compared with
    future_positions: tuple[int, ...]
    selection: Selection = EVERYTHING


@dataclass(frozen=True, slots=True)
class SourceSlice:
    """Readings of one source in one segment: some rows of a batch of a scratch file."""

    subject_key: str
    source_uri: str
    segment_us: int
    path: str
    batch: int
    first_row: int
    readings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherTask:
    """Sources of one dataset, and the file that their readings go to."""

    spec: ReadSpec
    reads: tuple[SourceRead, ...]
    scratch_file: str
    copies: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Where the readings lie, and what could not be read; readings of a failed source are to be ignored."""

    slices: tuple[SourceSlice, ...]
    failed_reads: Mapping[str, str]  # by uri


@dataclass(slots=True)
class _Scratch:
    """A file of Arrow batches that comes into being with its first reading."""

    path: str
    spec: ReadSpec
    slices: list[SourceSlice] = field(default_factory=list)
    _batches: int = 0
    _writer: pa.RecordBatchFileWriter | None = None

    def write(self, table: pa.Table, segment_us: np.ndarray, read: SourceRead) -> None:
        if not table.num_rows:
            return
        schema = readings_schema(self.spec)
        if self._writer is None:
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
            self._writer = pa.ipc.new_file(self.path, schema, options=options)
        if (np.diff(segment_us) < 0).any():
            order = np.argsort(segment_us, kind="stable")
            table, segment_us = table.take(pa.array(order)), segment_us[order]
        [batch] = table.select(schema.names).cast(schema).combine_chunks().to_batches()
        self._writer.write_batch(batch)
        starts = np.flatnonzero(np.diff(segment_us, prepend=segment_us[0] - 1))
        ends = np.append(starts[1:], len(segment_us))
        self.slices += [
            SourceSlice(
                read.subject_key, read.source_uri, own_us, self.path, self._batches, start, end - start
            )
            for own_us, start, end in zip(
                segment_us[starts].tolist(), starts.tolist(), ends.tolist(), strict=True
            )
        ]
        self._batches += 1

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


@dataclass(slots=True)
class _SourceSink:
    """Takes what the parser reads of one file, and leaves out what does not count."""

    scratch: _Scratch
    read: SourceRead
    path: str = ""
    written: int = 0

    def write(self, table: pa.Table) -> int:
        read, length_us = self.read, self.scratch.spec.segment_length_us
        position = table.column(POSITION).to_numpy()
        event_us = table.column(EVENT_US).to_numpy()
        segment_us = event_us - event_us % length_us
        counts = np.ones(len(position), dtype=np.bool_)
        if read.future_positions:
            counts &= ~np.isin(position, np.array(read.future_positions, dtype=np.int64))
        if read.sealed:
            counts &= ~np.isin(segment_us, np.array(read.sealed, dtype=np.int64))
        if not read.selection.is_everything:
            counts &= read.selection.taken(read.subject_key, segment_us, length_us=length_us)
        for parked, first, last in read.left_out:
            counts &= ~((segment_us == parked) & (position >= first) & (position <= last))
        if not counts.all():
            table, segment_us = table.filter(pa.array(counts)), segment_us[counts]
        self.scratch.write(table, segment_us, read)
        self.written += 1
        return self.written - 1


class ScratchReader:
    """Reads slices of scratch files."""

    def __init__(self) -> None:
        self._open: dict[str, pa.RecordBatchFileReader] = {}
        self._last: tuple[str, int, pa.RecordBatch] | None = None

    def read(self, wanted: SourceSlice) -> pa.Table:
        """The readings of a slice; the batch is kept, for the next slice is often of the same."""
        if self._last is None or self._last[:2] != (wanted.path, wanted.batch):
            if wanted.path not in self._open:
                self._open[wanted.path] = pa.ipc.open_file(pa.memory_map(wanted.path))
            batch = self._open[wanted.path].get_batch(wanted.batch)
            self._last = wanted.path, wanted.batch, batch
        return pa.Table.from_batches([self._last[2].slice(wanted.first_row, wanted.readings)])


def gather(task: GatherTask) -> Gathered:
    """Read sources afresh into one scratch file."""
    scratch = _Scratch(task.scratch_file, task.spec)
    failed = {}
    for read in task.reads:
        failure = _read_source(read, scratch, copy=task.copies)
        if failure is not None:
            failed[read.source_uri] = failure
    scratch.close()
    return Gathered(slices=tuple(scratch.slices), failed_reads=failed)


def _read_source(read: SourceRead, scratch: _Scratch, *, copy: str) -> str | None:
    """Why the source proves nothing; None where it was read and is what was taken in."""
    return read_as_taken_in(read, _SourceSink(scratch, read), copy=copy)[1]


def read_as_taken_in(
    read: SourceRead, sink: FragmentSink, *, copy: str
) -> tuple[tuple[Fragment, ...], str | None]:
    """Read a file as it was taken in: its fragments, and why it proves nothing; None where it is what it was."""
    try:
        outcome = read_file(_as_taken_in(read, copy), sink)
    except FileNotFoundError:
        return (), "the source is gone"
    except (OSError, DisarrayError) as error:
        return (), f"the source cannot be read: {error}"
    finally:
        Path(copy).unlink(missing_ok=True)
    return outcome.fragments, _unproven_reason(read, outcome)


def _unproven_reason(read: SourceRead, outcome: ReadOutcome) -> str | None:
    if outcome.status is ReadStatus.VANISHED:
        return "the source is gone"
    if outcome.fingerprint is None:
        return f"the source cannot be read: {outcome.message}"
    if outcome.fingerprint.content_hash != read.content_hash:
        return "the source changed since it was taken in"
    return None


def _as_taken_in(read: SourceRead, copy: str) -> ReadRequest:
    """The request for the file; of one that has grown, for a copy of what it was."""
    descriptor = open_beneath(read.request.path, read.request.roots)
    try:
        if os.fstat(descriptor).st_size <= read.size:
            return read.request
        with Path(copy).open("wb") as target:
            left = read.size
            while left and (block := os.read(descriptor, min(left, BLOCK_BYTES))):
                target.write(block)
                left -= len(block)
    finally:
        os.close(descriptor)
    return replace(read.request, path=copy, roots=(str(Path(copy).parent),))
