"""Cells of a Parquet file whose bytes are not what their type says, and rows as they can always be shown.

Arrow hands out text without looking whether it is UTF-8, and instants that Python has no date for. Both raise only
where a value is taken out: silently stored, such a cell would fail every later reader of its fragment.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OFFSETS: dict[pa.DataType, type[np.signedinteger[Any]]] = {
    pa.string(): np.int32,
    pa.binary(): np.int32,
    pa.large_string(): np.int64,
    pa.large_binary(): np.int64,
}


def undecodable_rows(array: pa.Array[Any]) -> NDArray[np.int64]:
    """Rows of a column of text or bytes that hold no UTF-8; none of any other column."""
    if array.type not in _OFFSETS or _is_ascii(array):
        return np.empty(0, dtype=np.int64)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            pass
        else:
            return np.empty(0, dtype=np.int64)
    cells = array.cast(pa.large_binary()).to_pylist()
    return np.array([row for row, cell in enumerate(cells) if not _is_text(cell)], dtype=np.int64)


def without_cells(array: pa.Array[Any], rows: NDArray[np.int64]) -> pa.Array[Any]:
    """The column with nothing in these rows."""
    if not len(rows):
        return array
    stays = np.ones(len(array), dtype=np.bool_)
    stays[rows] = False
    return pc.if_else(pa.array(stays), array, pa.scalar(None, array.type))


def row_sample(batch: pa.RecordBatch, row: int) -> bytes:
    """A row as a person can read it, whatever its cells hold."""
    return str({name: _shown(batch.column(name)[row]) for name in batch.schema.names}).encode(
        errors="backslashreplace"
    )


def _is_ascii(array: pa.Array[Any]) -> bool:
    """Whether no byte of a column is beyond ASCII: nearly always so, and told in a tenth of the time."""
    offsets, text = array.buffers()[1:3]
    if offsets is None or text is None or not len(array) or not text.size:
        return True
    places = np.frombuffer(offsets, dtype=_OFFSETS[array.type])
    first, end = int(places[array.offset]), int(places[array.offset + len(array)])
    return first == end or int(np.frombuffer(text, dtype=np.int8)[first:end].min()) >= 0


def _is_text(cell: bytes | None) -> bool:
    try:
        return cell is None or cell.decode() is not None
    except UnicodeDecodeError:
        return False


def _shown(cell: Any) -> object:
    # A year beyond 9999, a zone that nobody knows, text that is none: what it raises depends on the type.
    with suppress(Exception):
        return cell.as_py()
    with suppress(Exception):
        if isinstance(cell, pa.StringScalar | pa.LargeStringScalar | pa.StringViewScalar):
            return cell.as_buffer().to_pybytes()
        return f"{cell.value} as {cell.type}"
    return f"a {cell.type} that cannot be shown"
