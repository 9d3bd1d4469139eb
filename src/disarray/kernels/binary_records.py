"""Rows as PostgreSQL takes an array of a composite type: every bit as it is, and columns of a row may be arrays.

The receiver checks the type of every column, so that nothing arrives as another number. Before the records of an array
comes the number of their type, which another database has another one for: it is added where the array is sent.
"""

from __future__ import annotations

import struct
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from disarray.kernels.binary_copy import join_cells, joined_bytes, numbers, sized, sized_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

# Numbers of types that every PostgreSQL has: of the type itself, and of an array of it.
_TYPES: dict[pa.DataType, tuple[int, int]] = {
    pa.int16(): (21, 1005),
    pa.int32(): (23, 1007),
    pa.int64(): (20, 1016),
    pa.float64(): (701, 1022),
    pa.string(): (25, 1009),
    pa.bool_(): (16, 1000),
}
_SIZE_BYTES = 4


def encode_records(rows: pa.Table) -> bytes:
    """Each row of a table as one record."""
    if not rows.num_rows:
        return b""
    types = {field.name: _TYPES[field.type][0] for field in rows.schema}
    return joined_bytes(sized(join_cells(rows.combine_chunks(), [(">i4", rows.num_columns)], types)))


def encode_record(values: Sequence[tuple[pa.DataType, Any]]) -> bytes:
    """One record from the types of its columns and their values: numbers, texts, truths, Arrow arrays, or None."""
    pieces = [struct.pack(">i", len(values))]
    for kind, value in values:
        number, array_number = _TYPES[kind]
        if isinstance(value, pa.Array):
            number, cell = array_number, _array(value)
        elif value is None:
            # It is an array in every other record: all that is NULL in ours are columns of numbers.
            pieces.append(struct.pack(">ii", array_number, -1))
            continue
        elif isinstance(value, str):
            cell = value.encode()
        else:
            cell = struct.pack({pa.bool_(): ">?", pa.int32(): ">i", pa.int64(): ">q"}[kind], value)
        pieces.append(struct.pack(">ii", number, len(cell)))
        pieces.append(cell)
    record = b"".join(pieces)
    return struct.pack(">i", len(record)) + record


def _array(column: pa.Array[Any]) -> bytes:
    head = struct.pack(">iiiii", 1, int(column.null_count > 0), _TYPES[column.type][0], len(column), 1)
    if pa.types.is_string(column.type):
        return head + joined_bytes(sized_texts(column))
    kind, values = numbers(column)
    cells = np.empty(len(column), dtype=[("size", ">i4"), ("value", kind)])
    cells["size"], cells["value"] = np.dtype(kind).itemsize, values
    if not column.null_count:
        return head + cells.tobytes()
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    cells["size"][is_null] = -1
    # In words as large as size and value have in common: fewer to choose from than bytes.
    word = np.dtype(f"u{gcd(_SIZE_BYTES, cells.dtype.itemsize)}")
    words = cells.view(word).reshape(len(column), -1)
    kept = np.ones(words.shape, dtype=np.bool_)
    kept[is_null, _SIZE_BYTES // word.itemsize :] = False
    return head + words[kept].tobytes()
