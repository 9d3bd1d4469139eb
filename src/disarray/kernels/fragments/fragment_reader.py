"""Fragments out of files of the lake: every byte is held against its digest before anything is made of it."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from disarray.errors import FragmentDamagedError, FragmentReadError
from disarray.kernels.fragments.ordering import DIGEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAX_OPEN_FILES = 32
_READ_BYTES = 1 << 20
_MAGIC = b"PAR1"
_TAIL_BYTES = 8  # the length of the footer, and the magic
_HEX = 2 * DIGEST_BYTES


class FragmentReader:
    """Reads fragments of many files, and keeps the files open that it used last.

    A file that holds the fragments of a thousand small files has a footer that takes longer to read than all of them.
    """

    def __init__(self) -> None:
        self._open: dict[str, _OpenFile] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def read(
        self,
        path: str,
        row_groups: Sequence[int],
        *,
        digests: Mapping[int, str] | None = None,
        checksum: str | None = None,
    ) -> dict[int, pa.Table]:
        """The readings of some fragments of one file, read together: a third of the time of one by one.

        Row groups have the digests that they were written with. Files from before there were any have the checksum of
        the whole file: then all of it is read, once.
        """
        try:
            file = self._file(path)
            return file.read(row_groups, digests or {}, checksum)
        except (OSError, pa.ArrowException) as error:
            raise FragmentReadError.at(path, error) from error

    def _file(self, path: str) -> _OpenFile:
        file = self._open.pop(path, None)
        if file is None:
            if len(self._open) == _MAX_OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            file = _OpenFile(path)
        # A dict keeps the order of insertion: the one used last stands last.
        self._open[path] = file
        return file


def read_fragment(
    path: str, row_group: int, *, digest: str | None = None, checksum: str | None = None
) -> pa.Table:
    """The readings of one fragment."""
    digests = {} if digest is None else {row_group: digest}
    with FragmentReader() as reader:
        return reader.read(path, [row_group], digests=digests, checksum=checksum)[row_group]


class _OpenFile:
    """One file of fragments: a run of row groups without a gap, the magic before the first, and the footer."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._descriptor).st_size
        self._is_whole = False
        self._ranges = _Ranges(self._size)

    def close(self) -> None:
        os.close(self._descriptor)

    def read(
        self, row_groups: Sequence[int], digests: Mapping[int, str], checksum: str | None
    ) -> dict[int, pa.Table]:
        footer_digest = _digest(self._footer)
        if any(digest[_HEX:] != footer_digest for digest in digests.values()):
            raise self._damaged(row_groups, "its footer is not the one that was written")
        if checksum is not None and len(digests) < len(row_groups):
            self._assert_whole(row_groups, checksum)
        beyond = [number for number in row_groups if not 0 <= number < self._metadata.num_row_groups]
        if beyond:
            raise self._damaged(beyond, f"it has {self._metadata.num_row_groups} row groups")
        damaged = []
        try:
            for number in sorted(row_groups):
                start, end = self._start(number), self._start(number + 1)
                data = self._bytes(start, end)
                if number in digests and _digest(data) != digests[number][:_HEX]:
                    damaged.append(number)
                self._ranges.hold(start, data)
            if damaged:
                raise self._damaged(damaged, "its bytes are not those that were written")
            # Of bytes that are known to be right, the checksums of pages tell nothing more.
            parquet = self._parquet if len(digests) < len(row_groups) else self._verified_parquet
            together = parquet.read_row_groups(list(row_groups), use_threads=False)
        finally:
            self._ranges.clear()
        ends = np.cumsum([self._metadata.row_group(number).num_rows for number in row_groups]).tolist()
        return {
            number: together.slice(start, end - start)
            for number, (start, end) in zip(row_groups, pairwise([0, *ends]), strict=True)
        }

    @cached_property
    def _footer_start(self) -> int:
        tail = self._bytes(max(0, self._size - _TAIL_BYTES), self._size)
        start = self._size - _TAIL_BYTES - int.from_bytes(tail[:4], "little")
        if tail[-len(_MAGIC) :] != _MAGIC or start < len(_MAGIC):
            raise self._damaged((), f"{self._size:,} bytes long, it has no footer")
        return start

    @cached_property
    def _footer(self) -> bytes:
        return bytes(self._bytes(self._footer_start, self._size))

    @cached_property
    def _metadata(self) -> pq.FileMetaData:
        return pq.read_metadata(pa.BufferReader(_MAGIC + self._footer))

    @cached_property
    def _parquet(self) -> pq.ParquetFile:
        return self._opened(page_checksum_verification=True)

    @cached_property
    def _verified_parquet(self) -> pq.ParquetFile:
        return self._opened(page_checksum_verification=False)

    def _opened(self, *, page_checksum_verification: bool) -> pq.ParquetFile:
        # Nothing but what is held ever reaches a decoder. It would read across the gap between two row groups, too.
        return pq.ParquetFile(
            pa.PythonFile(self._ranges, "r"),
            metadata=self._metadata,
            pre_buffer=False,
            page_checksum_verification=page_checksum_verification,
        )

    def _start(self, number: int) -> int:
        """Where a row group begins; with the magic before it, the first one begins where the file does."""
        if number == 0:
            return 0
        if number == self._metadata.num_row_groups:
            return self._footer_start
        column = self._metadata.row_group(number).column(0)
        offset: int = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
        return offset

    def _assert_whole(self, row_groups: Sequence[int], checksum: str) -> None:
        if self._is_whole:
            return
        hasher = blake3()
        at = 0
        while piece := os.pread(self._descriptor, _READ_BYTES, at):
            hasher.update(piece)
            at += len(piece)
        if hasher.hexdigest() != checksum:
            raise self._damaged(row_groups, f"its checksum is {hasher.hexdigest()}, not {checksum}")
        self._is_whole = True

    def _bytes(self, start: int, end: int) -> memoryview:
        if not 0 <= start <= end <= self._size:
            raise self._damaged((), f"it is {self._size:,} bytes long, and byte {end:,} is needed")
        # Memory of Arrow's pool is there already; what Python allocates is mapped anew for each large read.
        data = memoryview(pa.allocate_buffer(end - start)).cast("B")
        at = 0
        while at < len(data):
            count = os.preadv(self._descriptor, [data[at:]], start + at)
            if not count:
                raise self._damaged((), f"it ends before byte {end:,}")
            at += count
        return data

    def _damaged(self, row_groups: Sequence[int], reason: str) -> FragmentDamagedError:
        return FragmentDamagedError.of_file(self._path, reason, row_groups=tuple(row_groups))


class _Ranges(io.RawIOBase):
    """Some stretches of a file, in memory, under the offsets that they have in it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._starts: list[int] = []
        self._data: list[memoryview] = []
        self._at = 0

    def hold(self, start: int, data: memoryview) -> None:
        """Add what comes after all that is held."""
        self._starts.append(start)
        self._data.append(data)

    def clear(self) -> None:
        """Hold nothing any more."""
        self._starts.clear()
        self._data.clear()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> memoryview:
        number = bisect_right(self._starts, self._at) - 1
        if number < 0:
            return memoryview(b"")
        first = self._at - self._starts[number]
        found = self._data[number][first : None if size < 0 else first + size]
        self._at += len(found)
        return found


def _digest(data: bytes | memoryview) -> str:
    return blake3(data).digest(length=DIGEST_BYTES).hex()
