"""A digest of what a user can see of a segment: equal digests mean that nothing has to be restated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from disarray.model.format import POSITION

DIGEST_BYTES = 16


def digest_readings(readings: pa.Table) -> bytes:
    """A hash over event time, channel and declared columns of readings in canonical order.

    How Arrow holds them and in which order columns are declared leaves no trace. Where a reading stands in its file is
    left out: a copy of a file that takes over from the original changes no number.
    """
    hasher = blake3(f"{readings.num_rows} readings;".encode())
    for name in sorted(readings.column_names):
        if name == POSITION:
            continue
        column = readings.column(name)
        hasher.update(f"{name}:{column.type}:".encode())
        # Parts are hashed one after the other, so it must not matter where one ends.
        has_nulls = column.null_count > 0
        hasher.update(b"nulls" if has_nulls else b"whole")
        if has_nulls:
            for chunk in column.chunks:
                hasher.update(chunk.is_valid().cast(pa.uint8()).to_numpy())
        if pa.types.is_string(column.type):
            for chunk in column.chunks:
                hasher.update(pc.binary_length(chunk.fill_null("")).to_numpy().view(np.uint8))
        for buffer in map(_plain_bytes, column.chunks):
            hasher.update(buffer)
    return hasher.digest(length=DIGEST_BYTES)


def _plain_bytes(array: pa.Array[Any]) -> memoryview:
    if pa.types.is_boolean(array.type):
        return memoryview(array.fill_null(False).cast(pa.uint8()).to_numpy())
    if pa.types.is_string(array.type):
        return _text_bytes(array.fill_null("") if array.null_count else array)
    if array.null_count:
        array = array.fill_null(pa.scalar(0, pa.int64()).cast(array.type))
    data = array.buffers()[1]
    if data is None:
        return memoryview(b"")
    return memoryview(data).cast("B")[array.offset * 8 : (array.offset + len(array)) * 8]


def _text_bytes(array: pa.Array[Any]) -> memoryview:
    _, offsets, data = array.buffers()
    if data is None or offsets is None:
        return memoryview(b"")
    ends = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    return memoryview(data).cast("B")[int(ends[0]) : int(ends[-1])]
