"""Cells of a Parquet file whose bytes are not what their type says, and rows as they can always be shown.

Arrow hands out text without looking whether it is UTF-8, and instants that Python has no date for. Both raise only
where a value is taken out: silently stored, such a cell would fail every later reader of its fragment.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa


def row_sample(batch: pa.RecordBatch, row: int) -> bytes:
    """A row as a person can read it, whatever its cells hold."""
    return str({name: _shown(batch.column(name)[row]) for name in batch.schema.names}).encode(
        errors="backslashreplace"
    )


def _shown(cell: Any) -> object:
    # A year beyond 9999, a zone that nobody knows, text that is none: what it raises depends on the type.
    with suppress(Exception):
        return cell.as_py()
    with suppress(Exception):
        if isinstance(cell, pa.StringScalar | pa.LargeStringScalar | pa.StringViewScalar):
            return cell.as_buffer().to_pybytes()
        return f"{cell.value} as {cell.type}"
    return f"a {cell.type} that cannot be shown"
