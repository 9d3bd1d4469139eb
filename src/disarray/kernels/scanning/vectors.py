"""Columns as NumPy sees them: values, which of them are there, and which left int64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.model.description.format import ColumnType

if TYPE_CHECKING:
    from numpy.typing import NDArray

Mask = np.ndarray[Any, np.dtype[np.bool_]]

_DTYPES = {
    ColumnType.FLOAT64: np.float64,
    ColumnType.INT64: np.int64,
    ColumnType.TIMESTAMP: np.int64,
    ColumnType.BOOL: np.bool_,
}


@dataclass(frozen=True, slots=True)
class Vector:
    """Values of readings; what stands at a NULL means nothing. A constant has shape () and fits any length.

    Texts stay in Arrow, timestamps are microseconds. `overflow` marks values that whole numbers cannot hold:
    they are an error only where they are used, as in the branch of a `case` that is taken.
    """

    values: Any  # NDArray, or an Arrow array or scalar of texts
    valid: Mask | None = None  # None: all
    overflow: Mask | None = None  # None: nowhere

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return isinstance(self.values, pa.Array | pa.Scalar)

    @property
    def is_float(self) -> bool:
        """Whether the values are float64."""
        return not self.is_text and self.values.dtype == np.float64

    @property
    def is_constant(self) -> bool:
        """Whether one value stands for every reading."""
        return isinstance(self.values, pa.Scalar) or (not self.is_text and self.values.ndim == 0)

    def take(self, rows: NDArray[np.int64]) -> Vector:
        """The values at these rows."""
        if self.is_constant:
            return self
        values = self.values.take(pa.array(rows)) if self.is_text else self.values[rows]
        return Vector(values, None if self.valid is None else self.valid[rows])

    def true_rows(self, rows: int) -> Mask:
        """Where a condition holds; NULL does not."""
        held = self.values if self.valid is None else self.values & self.valid
        return np.broadcast_to(held, rows)


def vector_of(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> Vector:
    """A column of a table, without a copy where Arrow's layout allows it."""
    array = flat(column)
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_string(array.type):
        return Vector(array, valid)
    if pa.types.is_boolean(array.type):
        return Vector(array.fill_null(False).to_numpy(zero_copy_only=False), valid)
    dtype = np.float64 if pa.types.is_floating(array.type) else np.int64
    data = array.buffers()[1]
    if data is None:
        return Vector(np.zeros(len(array), dtype), valid)
    return Vector(np.frombuffer(data, dtype, count=len(array), offset=array.offset * 8), valid)


def constant(value: str | float | None, kind: ColumnType) -> Vector:
    """One value for every reading."""
    valid = np.asarray(False) if value is None else None
    if kind is ColumnType.STRING:
        return Vector(pa.scalar("" if value is None else value, pa.string()), valid)
    number: NDArray[Any] = np.asarray(0 if value is None else value, dtype=_DTYPES[kind])
    return Vector(number + 0.0 if kind is ColumnType.FLOAT64 else number, valid)


def flat(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> pa.Array[Any]:
    """The column in one piece."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def identity(vector: Vector) -> NDArray[np.int64]:
    """Numbers that are equal exactly where the values are; NULLs are told apart by `valid`, and are 0 here."""
    values = vector.values
    if vector.is_text:
        codes = pc.fill_null(values.dictionary_encode().indices, 0) if isinstance(values, pa.Array) else 0
        numbers = np.asarray(codes, dtype=np.int64)
    elif vector.is_float:
        numbers = (values + 0.0).view(np.int64)
    else:
        numbers = values.astype(np.int64, copy=False)
    return numbers if vector.valid is None else np.where(vector.valid, numbers, 0)


def ranks(vector: Vector) -> NDArray[Any]:
    """Numbers in the order of the values, NULL first (as the smallest); texts order by UTF-8 bytes."""
    values = vector.values
    if vector.is_text:
        encoded = values.dictionary_encode()
        rank = np.empty(len(encoded.dictionary), dtype=np.int64)
        rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
        codes = np.asarray(pc.fill_null(encoded.indices, 0), dtype=np.int64)
        values = rank[codes] if len(rank) else np.zeros(len(codes), dtype=np.int64)
    if vector.valid is None:
        return np.asarray(values)
    # Dense numbers leave room for NULL below the smallest.
    dense = np.unique(values, return_inverse=True)[1] + 1
    return np.where(vector.valid, dense, 0)


def changes(vector: Vector) -> Mask:
    """Whether each value but the first differs from the one before it; NULL equals NULL."""
    numbers = identity(vector)
    differs: Mask = numbers[1:] != numbers[:-1]
    return differs if vector.valid is None else differs | (vector.valid[1:] != vector.valid[:-1])


def both(first: Mask | None, second: Mask | None) -> Mask | None:
    """Where both hold; None is everywhere."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def either(first: Mask | None, second: Mask | None) -> Mask | None:
    """Where one of them holds; None is nowhere."""
    if first is None or second is None:
        return second if first is None else first
    return first | second
