"""The kernel that fills the scratch folder of a verification: readings of sources and of fragments, with their file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disarray.errors import DisarrayError, FragmentReadError
from disarray.kernels.fragments.fragment_reader import FragmentReader
from disarray.kernels.parsing.readings import readings_schema
from disarray.kernels.reading.file_reader import read_file
from disarray.kernels.reading.opening import open_beneath
from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION
from disarray.model.fingerprints import BLOCK_BYTES
from disarray.store.fragments import read_own_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.kernels.fragments.fragment_writer import Fragment, FragmentSink
    from disarray.kernels.reading.outcome import ReadOutcome, ReadRequest
    from disarray.model.description.read_spec import ReadSpec
    from disarray.model.fragments import FragmentEntry

SUBJECT = "_subject"
URI = "_uri"
GENERATION = "_generation"
CONTENT = "_content"  # the same for files with the same bytes


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


@dataclass(frozen=True, slots=True)
class LakePart:
    """One active fragment."""

    subject_key: str
    fragment: FragmentEntry
    path: str
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherTask:
    """Sources and fragments of one dataset, and the files that their readings go to."""

    spec: ReadSpec
    reads: tuple[SourceRead, ...]
    parts: tuple[LakePart, ...]
    source_file: str
    lake_file: str
    copies: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The files that were written, and what could not be read; readings of a failed source are to be ignored."""

    source_file: str | None
    lake_file: str | None
    failed_reads: Mapping[str, str]  # by uri
    failed_parts: Mapping[tuple[str, str, int], str]  # by subject, uri and segment
    segments: frozenset[int]


def scratch_schema(spec: ReadSpec) -> pa.Schema:
    """A reading, its channel (empty where the dataset has none), and where it comes from."""
    own = readings_schema(spec)
    names = [EVENT_US, POSITION, CHANNEL, *spec.column_names]
    fields = [own.field(name) if name in own.names else pa.field(name, pa.string()) for name in names]
    origin = [(SUBJECT, pa.string()), (URI, pa.string()), (GENERATION, pa.int64()), (CONTENT, pa.string())]
    return pa.schema([*(each.with_nullable(True) for each in fields), *origin])


@dataclass(slots=True)
class _Scratch:
    """A Parquet file that comes into being with its first reading."""

    path: str
    spec: ReadSpec
    segments: set[int] = field(default_factory=set)
    _writer: pq.ParquetWriter | None = None

    def write(
        self, table: pa.Table, *, subject_key: str, uri: str, generation: int, content_hash: str
    ) -> None:
        if not table.num_rows:
            return
        schema = scratch_schema(self.spec)
        constants = {
            SUBJECT: subject_key,
            URI: uri,
            GENERATION: generation,
            CONTENT: content_hash,
            CHANNEL: "",
        }
        arrays = [
            table.column(each.name)
            if each.name in table.column_names
            else pa.repeat(pa.scalar(constants[each.name], each.type), table.num_rows)
            for each in schema
        ]
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, schema)
        self._writer.write_table(pa.table(arrays, schema=schema))
        starts = np.unique(table.column(EVENT_US).to_numpy() // self.spec.segment_length_us)
        self.segments.update((starts * self.spec.segment_length_us).tolist())

    def close(self) -> str | None:
        if self._writer is None:
            return None
        self._writer.close()
        return self.path


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
        segment = table.column(EVENT_US).to_numpy() // length_us * length_us
        counts = ~np.isin(position, np.array(read.future_positions, dtype=np.int64))
        counts &= ~np.isin(segment, np.array(read.sealed, dtype=np.int64))
        for parked, first, last in read.left_out:
            counts &= ~((segment == parked) & (position >= first) & (position <= last))
        self.scratch.write(
            table if counts.all() else table.filter(pa.array(counts)),
            subject_key=read.subject_key,
            uri=read.source_uri,
            generation=read.generation,
            content_hash=read.content_hash,
        )
        self.written += 1
        return self.written - 1


def gather(task: GatherTask) -> Gathered:
    """Read sources afresh and fragments as they lie, each into one file."""
    sources, parts = _Scratch(task.source_file, task.spec), _Scratch(task.lake_file, task.spec)
    failed_reads = {}
    for read in task.reads:
        failure = _read_source(read, sources, copy=task.copies)
        if failure is not None:
            failed_reads[read.source_uri] = failure
    failed_parts = {}
    with FragmentReader() as reader:
        for part in task.parts:
            fragment = part.fragment
            try:
                _read_part(part, parts, reader)
            except (OSError, FragmentReadError, pa.ArrowException) as error:
                key = part.subject_key, fragment.source_uri, fragment.segment_us
                failed_parts[key] = " ".join(f"{fragment.path}: {error}".split())[:200]
    return Gathered(
        source_file=sources.close(),
        lake_file=parts.close(),
        failed_reads=failed_reads,
        failed_parts=failed_parts,
        segments=frozenset(sources.segments | parts.segments),
    )


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


def _read_part(part: LakePart, scratch: _Scratch, reader: FragmentReader) -> None:
    fragment = part.fragment
    table = read_own_rows(reader, part.path, fragment)
    if fragment.cut_position is not None:
        table = table.filter(pa.array(table.column(POSITION).to_numpy() < fragment.cut_position))
    scratch.write(
        table,
        subject_key=part.subject_key,
        uri=fragment.source_uri,
        generation=fragment.generation,
        content_hash=part.content_hash,
    )
