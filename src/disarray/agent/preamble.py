"""The subject that a file names in its own preamble, read from its head alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.preface import (
    ends_preamble,
    guard_preamble,
    is_header_line,
    lenient_text,
    with_fields,
)
from disarray.kernels.reading.blocks import read_extent
from disarray.kernels.reading.decompression import Unpacker, detect_compression
from disarray.model.description.format import Compression, FileKind
from disarray.model.fingerprints import ParserState
from disarray.model.matching import subject_from_preamble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.format import Format

# A preamble beyond this is no preamble; the worker would refuse the file for it as well.
_MOST_BYTES = 4 << 20
_PIECE_BYTES = 1 << 16


def read_subject(descriptor: int, size: int, *, uri: str, dataset: Dataset) -> str | None:
    """The subject, or None where the preamble is not complete yet; a whole preamble without it is an error."""
    field = dataset.subject.text
    state = ParserState()
    for number, raw in enumerate(_lines(descriptor, size, dataset.format), start=1):
        if dataset.format.kind is FileKind.PARQUET:
            raise UnreadableFileError("Parquet files have no preamble that could name a subject")
        guard_preamble(number, dataset.format)
        text = lenient_text(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw, dataset.format)
        if not _is_over(text, number, dataset.format):
            state = with_fields(state, text, dataset.format)
            if field not in dict(state.fields):
                continue
        return subject_from_preamble(uri, dataset, dict(state.fields))
    return None


def _is_over(text: str, number: int, fmt: Format) -> bool:
    return ends_preamble(text, number, fmt) or (not fmt.header.names and is_header_line(text, number, fmt))


def _lines(descriptor: int, size: int, fmt: Format) -> Iterator[bytes]:
    """Whole lines from the start; the last, unterminated one may still be growing."""
    head = read_extent(descriptor, 0, min(size, 4))
    compression = detect_compression(head, fmt.compression)
    pieces = _pieces(descriptor, min(size, _MOST_BYTES))
    rest = b""
    for piece in pieces if compression is Compression.NONE else Unpacker(compression).unpack(pieces):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > fmt.max_line_bytes:
            raise UnreadableFileError(f"a line before the header is longer than {fmt.max_line_bytes} bytes")


def _pieces(descriptor: int, end: int) -> Iterator[bytes]:
    for start in range(0, end, _PIECE_BYTES):
        yield read_extent(descriptor, start, min(start + _PIECE_BYTES, end))
