"""Rows on their way from a scan into a table: staged by a task, streamed by whoever commits."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from disarray.errors import FragmentWriteError
from disarray.kernels.copying import encode_rows
from disarray.kernels.table_rows import count_rows_alike, digest_rows, table_rows, uri_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from disarray.kernels.scanning import KeptReadings
    from disarray.model.tables import ReadingsTable

_PIECE = 1 << 20


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
        try:
            offset, length = self._write(encode_rows(rows.slice(known)))
        except OSError as error:
            raise FragmentWriteError.at(self._path, error) from error
        return StagedRows(
            digest=digest,
            kept=known,
            replaces=wanted.stored_digest is None or known < wanted.stored_rows,
            added=rows.num_rows - known,
            path=str(self._path),
            offset=offset,
            length=length,
        )

    def _write(self, pieces: Iterable[bytes]) -> tuple[int, int]:
        length, offset = 0, 0 if self._file is None else self._file.tell()
        for piece in pieces:
            if self._file is None:
                self._file = self._path.open("wb")
            self._file.write(piece)
            length += len(piece)
        return offset, length


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
                raise FragmentWriteError(
                    f"{staged.path} is shorter than it was written. Nothing was committed; retry"
                )
            left -= len(piece)
            yield piece
