"""Rows as PostgreSQL's binary COPY takes them: every bit as it is, no text in between.

The receiver believes the bytes: a float that goes into a column of whole numbers arrives as another number, silently.
So `COPY_TYPES` says which type each column of the target must have, exactly; the caller checks that before it copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.errors import UnstorableTextError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
# What PostgreSQL calls the type that each Arrow type fits, bit for bit.
COPY_TYPES: dict[pa.DataType, str] = {
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.bool_(): "boolean",
    pa.string(): "text",
    pa.timestamp("us", tz="UTC"): "timestamp with time zone",
}

_BATCH = 65_536
_NULL = b"\xff\xff\xff\xff"
# PostgreSQL counts microseconds from 2000-01-01.
_EPOCH_US = 946_684_800_000_000


def encode_rows(rows: pa.Table) -> Iterator[bytes]:
    """The rows in their order, some at a time; `HEADER` comes before the first and `TRAILER` after the last."""
    for start in range(0, rows.num_rows, _BATCH):
        yield _encode(rows.slice(start, _BATCH).combine_chunks())


def _encode(rows: pa.Table) -> bytes:
    for name in rows.column_names:
        column = rows.column(name).chunk(0)
        if pa.types.is_string(column.type):
            refuse_nul(column, name)
    return joined_bytes(join_cells(rows, [(">i2", rows.num_columns)]))


def join_cells(
    rows: pa.Table, head: list[tuple[str, Any]], heads: Mapping[str, int] | None = None
) -> pa.Array[Any]:
    """Each row of one chunk as one binary value: the head, then by column what `heads` has for it, and its cell."""
    count = rows.num_rows
    pieces: list[pa.Array[Any]] = []
    fixed = list(head)
    for name in rows.column_names:
        column = rows.column(name).chunk(0)
        if heads is not None:
            fixed.append((">i4", heads[name]))
        if pa.types.is_string(column.type):
            pieces += [_fixed(fixed, count), sized_texts(column)] if fixed else [sized_texts(column)]
            fixed = []
            continue
        kind, values = numbers(column)
        cells = [(">i4", np.dtype(kind).itemsize), (kind, values)]
        if column.null_count:
            cell = pc.if_else(column.is_valid(), _fixed(cells, count), pa.scalar(_NULL, pa.binary()))
            pieces += [_fixed(fixed, count), cell] if fixed else [cell]
            fixed = []
        else:
            fixed += cells
    if fixed:
        pieces.append(_fixed(fixed, count))
    joined = pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, b"")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def joined_bytes(values: pa.Array[Any]) -> bytes:
    """Binary values one after the other."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset :][: len(values) + 1]
    return bytes(memoryview(values.buffers()[2])[offsets[0] : offsets[-1]])


def sized(values: pa.Array[Any]) -> pa.Array[Any]:
    """Binary values, each with its length before it."""
    lengths = pc.binary_length(values).to_numpy()
    return pc.binary_join_element_wise(_fixed([(">i4", lengths)], len(values)), values, b"")


def _fixed(fields: list[tuple[str, Any]], count: int) -> pa.Array[Any]:
    """Cells of fixed width side by side, as one binary value for each row."""
    block = np.empty(count, dtype=[(str(number), kind) for number, (kind, _) in enumerate(fields)])
    for number, (_, values) in enumerate(fields):
        block[str(number)] = values
    width = block.dtype.itemsize
    return pa.Array.from_buffers(
        pa.binary(),
        count,
        [None, pa.py_buffer(np.arange(0, (count + 1) * width, width, dtype=np.int32)), pa.py_buffer(block)],
    )


def numbers(column: pa.Array[Any]) -> tuple[str, NDArray[Any]]:
    """Values as PostgreSQL has them, and their type; what is NULL is any number."""
    if pa.types.is_boolean(column.type):
        return ">i1", column.fill_null(False).cast(pa.int8()).to_numpy()
    if pa.types.is_timestamp(column.type):
        return ">i8", column.cast(pa.int64()).fill_null(_EPOCH_US).to_numpy() - _EPOCH_US
    kinds = {pa.int16(): ">i2", pa.int32(): ">i4", pa.int64(): ">i8", pa.float64(): ">f8"}
    return kinds[column.type], column.fill_null(0).to_numpy() if column.null_count else column.to_numpy()


def sized_texts(column: pa.Array[Any]) -> pa.Array[Any]:
    """Texts as cells: each with its length before it, which says where one is NULL."""
    lengths = pc.binary_length(column).fill_null(-1).to_numpy()
    sizes = _fixed([(">i4", lengths)], len(column))
    return pc.binary_join_element_wise(sizes, column.cast(pa.binary()).fill_null(b""), b"")


def refuse_nul(column: pa.Array[Any], name: str) -> None:
    """Refuse a text that no column of PostgreSQL can hold."""
    data = column.buffers()[2]
    if data is None or np.frombuffer(data, dtype=np.uint8).all():
        return
    if pc.any(pc.match_substring(column, "\0")).as_py():
        raise UnstorableTextError(
            f"a reading has a NUL character in column '{name}', which no text of PostgreSQL can hold. Nothing was "
            "changed. Leave the column out (only_columns), or keep the dataset in the lake"
        )
