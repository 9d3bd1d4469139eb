"""One text for the values of several columns: equal exactly where the values are."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from disarray.kernels.scanning.vectors import Vector


def value_texts(columns: Sequence[Vector], rows: NDArray[np.int64]) -> pa.Array[Any]:
    """A compact JSON array for each of these rows, in ASCII; NULL where there are no columns to tell of.

    Floats are written so that they read back to the same bits, timestamps as microseconds.
    """
    if not columns:
        return pa.nulls(len(rows), pa.string())
    values = [_values(column, rows) for column in columns]
    texts = [json.dumps(row, separators=(",", ":"), ensure_ascii=True) for row in zip(*values, strict=True)]
    return pa.array(texts, pa.string())


def same_text(text: str, count: int) -> pa.Array[Any]:
    """A column that says the same in every row."""
    return pa.repeat(text_scalar(text), count)


@lru_cache(maxsize=4096)
def text_scalar(text: str) -> pa.Scalar[Any]:
    """A text as Arrow has it; kept, for each conversion from Python looks for packages that may not be there."""
    return pa.scalar(text, pa.string())


def _values(column: Vector, rows: NDArray[np.int64]) -> list[object]:
    if column.is_constant:
        is_there = column.valid is None or bool(column.valid)
        value = column.values.as_py() if column.is_text else column.values.item()
        return [value if is_there else None] * len(rows)
    taken = column.take(rows)
    values: list[object] = taken.values.to_pylist() if taken.is_text else taken.values.tolist()
    if taken.valid is None:
        return values
    return [value if there else None for value, there in zip(values, taken.valid, strict=True)]
