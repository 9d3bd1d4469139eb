"""What the pages of a Parquet file claim to unpack to, from their headers alone.

The footer cannot be believed for this: a decoder allocates what the header of each page says. Headers are
Thrift in its compact form, of which only the few fields are kept that decide how much memory a batch of rows takes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.errors import UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq

# Writers cut pages at one megabyte, some at a hundred; a single page beyond that is a bomb or as good as one.
MAX_PAGE_BYTES = 128 << 20
MAX_FOOTER_BYTES = 32 << 20
_FIRST_LOOK = 1 << 12
_MAX_HEADER_BYTES = 16 << 20
_DICTIONARY_PAGE = 2
_DICTIONARY_ENCODINGS = (2, 8)
_FRONT_CODED = 7  # each value repeats the beginning of the one before: any of them may be as long as the page
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class PageSizes:
    """Of the pages of one column: bytes that a value takes at most on average, and whether some are in a dictionary."""

    bytes_per_value: float
    has_dictionary: bool


@dataclass(slots=True)
class _Page:
    kind: int
    unpacked: int
    packed: int
    values: int
    encoding: int


def check_footer(descriptor: int, size: int) -> None:
    """Refuse a footer that is not worth unpacking."""
    length = int.from_bytes(os.pread(descriptor, 4, max(0, size - 8)), "little")
    if length > MAX_FOOTER_BYTES:
        raise UnreadableFileError(
            f"its Parquet footer has {length:,} bytes, more than {MAX_FOOTER_BYTES:,}; nothing of it is kept"
        )


def page_sizes(descriptor: int, metadata: pq.FileMetaData, column: int) -> PageSizes:
    """Look at the header of every page of one flat column; a page that unpacks to too much fails the file."""
    per_value, has_dictionary = 0.0, False
    for number in range(metadata.num_row_groups):
        chunk = metadata.row_group(number).column(column)
        for page in _pages(descriptor, chunk):
            if page.unpacked > MAX_PAGE_BYTES:
                raise UnreadableFileError(
                    f"a page of column {chunk.path_in_schema} unpacks to {page.unpacked:,} bytes, more than "
                    f"{MAX_PAGE_BYTES:,}, and looks like a decompression bomb; nothing of it is kept"
                )
            if page.kind == _DICTIONARY_PAGE:
                has_dictionary = True
            elif page.encoding == _FRONT_CODED:
                per_value = max(per_value, float(page.unpacked))
            elif page.encoding not in _DICTIONARY_ENCODINGS:
                per_value = max(per_value, page.unpacked / max(1, page.values))
    return PageSizes(per_value, has_dictionary)


def _pages(descriptor: int, chunk: Any) -> Iterator[_Page]:
    starts = [offset for offset in (chunk.dictionary_page_offset, chunk.data_page_offset) if offset]
    position = min(starts, default=0)
    end = position + chunk.total_compressed_size
    values = 0
    while position < end and values < chunk.num_values:
        page, length = _header_at(descriptor, position)
        if page.kind != _DICTIONARY_PAGE:
            values += page.values
        yield page
        position += length + page.packed


def _header_at(descriptor: int, position: int) -> tuple[_Page, int]:
    look = _FIRST_LOOK
    while True:
        data = os.pread(descriptor, look, position)
        try:
            fields, length = _struct(data, 0)
            break
        except IndexError:
            if len(data) < look or look >= _MAX_HEADER_BYTES:
                raise UnreadableFileError(
                    "is not a whole Parquet file: the header of a page has no end"
                ) from None
            look *= 16
    details: dict[int, Any] = next(
        (fields[field] for field in (5, 8, 7) if isinstance(fields.get(field), dict)), {}
    )
    is_v2 = isinstance(fields.get(8), dict) and not isinstance(fields.get(5), dict)
    page = _Page(
        kind=_number(fields, 1),
        unpacked=_number(fields, 2),
        packed=_number(fields, 3),
        values=_number(details, 1),
        encoding=_number(details, 4 if is_v2 else 2),
    )
    if page.packed < 0 or page.unpacked < 0 or page.values < 0:
        raise UnreadableFileError("is not a whole Parquet file: a page has a negative size")
    return page, length


def _number(fields: dict[int, Any], field: int) -> int:
    value = fields.get(field)
    if not isinstance(value, int):
        raise UnreadableFileError("is not a whole Parquet file: the header of a page lacks a field")
    return value


def _struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The numbers and structures of a Thrift structure by field, and where it ends; `IndexError` beyond the data."""
    if depth > _DEEPEST:
        raise UnreadableFileError("is not a whole Parquet file: the header of a page is nested too deeply")
    fields: dict[int, Any] = {}
    field = 0
    while kind := data[at]:
        at += 1
        if kind >> 4:
            field += kind >> 4
        else:
            field, at = _zigzag(data, at)
        fields[field], at = _value(data, at, kind & 15, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2:
            return None, at
        case 3:
            return None, at + 1
        case 4 | 5 | 6:
            return _zigzag(data, at)
        case 7:
            return None, at + 8
        case 8:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise IndexError
            return None, at + length
        case 12:
            return _struct(data, at, depth + 1)
        case _:
            raise UnreadableFileError(
                "is not a whole Parquet file: the header of a page has an unknown field"
            )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise UnreadableFileError("is not a whole Parquet file: a number in the header of a page has no end")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at
