"""Rows on their way from a scan into the database: staged by a task, streamed by the commit.

Two kinds share a file: rows of a table of readings, as binary COPY takes them (or, where it has dimensions, as
`staged_facts` has them), and summaries with blocks of rollup parts, as an array of a composite type takes them. A task
prepares both; the driver holds where they lie, and never more than a piece of them.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from disarray.errors import FragmentWriteError
from disarray.kernels.binary_copy import encode_rows
from disarray.kernels.binary_records import encode_records
from disarray.kernels.scanning.table_rows import count_rows_alike, digest_rows, table_rows, uri_of
from disarray.store.staged_facts import stage_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    import pyarrow as pa

    from disarray.kernels.scanning.rollup_blocks import RollupBlock
    from disarray.kernels.scanning.segment_scan import KeptReadings
    from disarray.model.description.readings_table import ReadingsTable

_PIECE = 1 << 20
# So many summaries lie together: about a megabyte.
_BATCH_SUMMARIES = 4_000
# Before each batch: what it holds, how many of them, and in how many bytes.
_BATCH_HEAD = struct.Struct(">Bii")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsWanted:
    """What a task needs to make rows of a segment, and what the table holds of it: so many rows of this digest."""

    table: ReadingsTable
    source_ids: Mapping[str, int]
    stored_rows: int = 0
    stored_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """The rows of one segment that the table lacks: the first `kept` are there, `added` lie in the file."""

    digest: str | None  # of all rows, kept ones included; None: there are none
    kept: int
    replaces: bool  # the table may hold rows beyond those that are kept, which have to go
    added: int
    path: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedParts:
    """The summaries and rollup parts of one segment: so many rows, in batches that lie in the file."""

    rows: int
    path: str
    offset: int
    length: int


class RecordKind(IntEnum):
    """What a batch holds."""

    SUMMARIES = 1
    ROLLUPS = 2


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records of one kind as an array of their type has them, one after the other."""

    kind: RecordKind
    count: int
    records: bytes


class StagingFile:
    """One task's staged rows, segment after segment; there is no file as long as nothing is staged."""

    def __init__(self, path: str) -> None:
        # A task may run twice, and the first attempt may not be quite dead yet: each writes a file of its own.
        self._path = Path(path).with_stem(f"{Path(path).stem}-{uuid.uuid4().hex[:8]}")
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            if error is not None:
                self._path.unlink(missing_ok=True)

    def put(self, kept: KeptReadings, wanted: RowsWanted, *, subject: str, segment_us: int) -> StagedRows:
        """Stage what the table lacks of a segment: what stands right of the first row that it does not have."""
        merged = kept.merged
        rows = table_rows(
            merged,
            kept.locals,
            wanted.table,
            subject=subject,
            segment_us=segment_us,
            source_ids=wanted.source_ids,
        )
        uris = [uri_of(key) for key in merged.uris]
        digest = digest_rows(rows, uris, merged.sources) if rows.num_rows else None
        known = 0
        if wanted.stored_digest is not None:
            known = count_rows_alike(
                rows, uris, merged.sources, stored_rows=wanted.stored_rows, stored_digest=wanted.stored_digest
            )
        lacking = rows.slice(known)
        if wanted.table.dimensions and lacking.num_rows:
            offset, length = self._write([stage_facts(lacking, wanted.table)])
        else:
            offset, length = self._write(encode_rows(lacking))
        return StagedRows(
            digest=digest,
            kept=known,
            replaces=wanted.stored_digest is None or known < wanted.stored_rows,
            added=rows.num_rows - known,
            path=str(self._path),
            offset=offset,
            length=length,
        )

    def put_parts(self, summaries: pa.Table, blocks: Iterable[RollupBlock]) -> StagedParts:
        """Stage the summaries and the rollup parts of a segment."""
        held = list(blocks)
        offset, length = self._write(_framed(record_batches(summaries, held)))
        rows = summaries.num_rows + sum(block.parts for block in held)
        return StagedParts(rows=rows, path=str(self._path), offset=offset, length=length)

    def _write(self, pieces: Iterable[bytes]) -> tuple[int, int]:
        length, offset = 0, 0 if self._file is None else self._file.tell()
        try:
            for piece in pieces:
                if self._file is None:
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = self._path.open("wb")
                self._file.write(piece)
                length += len(piece)
        except OSError as error:
            raise FragmentWriteError.at(self._path, error) from error
        return offset, length


def record_batches(summaries: pa.Table, blocks: Iterable[RollupBlock]) -> Iterator[RecordBatch]:
    """The numbers of a segment as records, some at a time."""
    for start in range(0, summaries.num_rows, _BATCH_SUMMARIES):
        some = summaries.slice(start, _BATCH_SUMMARIES)
        yield RecordBatch(RecordKind.SUMMARIES, some.num_rows, encode_records(some))
    for block in blocks:
        yield RecordBatch(RecordKind.ROLLUPS, 1, block.record())


def _framed(batches: Iterable[RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        yield _BATCH_HEAD.pack(batch.kind, batch.count, len(batch.records))
        yield batch.records


def staged_batches(staged: StagedParts) -> Iterator[RecordBatch]:
    """The batches of one segment, one at a time."""
    left = staged.length
    with Path(staged.path).open("rb") as file:
        file.seek(staged.offset)
        while left > 0:
            head = file.read(_BATCH_HEAD.size)
            if len(head) < _BATCH_HEAD.size:
                raise _cut_short(staged.path)
            kind, count, length = _BATCH_HEAD.unpack(head)
            records = file.read(length)
            if len(records) < length:
                raise _cut_short(staged.path)
            left -= len(head) + length
            yield RecordBatch(RecordKind(kind), count, records)


def staged_pieces(staged: StagedRows) -> Iterator[bytes]:
    """The bytes of one segment's staged rows, some at a time."""
    if not staged.length:
        return
    left = staged.length
    with Path(staged.path).open("rb") as file:
        file.seek(staged.offset)
        while left:
            piece = file.read(min(left, _PIECE))
            if not piece:
                raise _cut_short(staged.path)
            left -= len(piece)
            yield piece


def _cut_short(path: str) -> FragmentWriteError:
    return FragmentWriteError(f"{path} is shorter than it was written. Nothing was committed; retry")
