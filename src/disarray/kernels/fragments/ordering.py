"""The canonical order of readings within one file, and a digest that only equal readings share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from disarray.model.description.format import EVENT_US, POSITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DIGEST_BYTES = 16


def in_canonical_order(table: pa.Table, order_by: Sequence[str]) -> pa.Table:
    """Sort by event time, then the order columns with nulls first, then position; a sorted table costs one look."""
    event_us = table.column(EVENT_US).to_numpy()
    if (event_us[1:] > event_us[:-1]).all():
        return table
    position = table.column(POSITION).to_numpy()
    if not order_by and (event_us[1:] >= event_us[:-1]).all() and (position[1:] > position[:-1]).all():
        return table
    if not order_by:
        return table.take(pa.array(np.lexsort((position, event_us))))
    keys = [(name, "ascending", "at_start") for name in (EVENT_US, *order_by, POSITION)]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def digest_table(table: pa.Table) -> str:
    """A hash of every value in order: nulls, lengths and bits, whatever the buffers look like."""
    hasher = blake3()
    for name, column in zip(table.column_names, table.columns, strict=True):
        hasher.update(f"{name}:{column.type}:{len(column)}:{column.null_count}:".encode())
        if column.null_count:
            for chunk in column.chunks:
                hasher.update(chunk.is_null().to_numpy(zero_copy_only=False).view(np.uint8))
        # Part by part (all lengths, then all text), so that the digest does not depend on how a column is
        # chunked.
        for part in zip(*map(_plain_buffers, column.chunks), strict=True):
            for buffer in part:
                hasher.update(buffer)
    return hasher.digest(length=DIGEST_BYTES).hex()


def _plain_buffers(array: pa.Array[Any]) -> list[NDArray[np.uint8]]:
    if pa.types.is_boolean(array.type):
        return [array.fill_null(False).cast(pa.uint8()).to_numpy()]
    if pa.types.is_string(array.type):
        filled = array.fill_null("") if array.null_count else array
        offsets = np.frombuffer(filled.buffers()[1], dtype=np.int32)[filled.offset :][: len(filled) + 1]
        data = filled.buffers()[2]
        text = np.frombuffer(data or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
        return [np.diff(offsets).view(np.uint8), text]
    if array.null_count:
        array = array.fill_null(pa.scalar(0).cast(array.type))
    width = array.type.bit_width // 8
    values = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    return [values[array.offset * width : (array.offset + len(array)) * width]]
