"""Rollup parts of a segment as columns: what travels, and what the database stores as one row."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.kernels.binary_records import encode_record
from disarray.kernels.scanning.vectors import flat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# A block has about so many parts: some hundred kilobytes to open for whoever wants one of them.
BLOCK_PARTS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupBlock:
    """Parts of one rollup in one segment, named and ordered like the composite type `scanned_rollup`.

    A *place* is a bucket of a channel. `channels` and the three after it have an element for each place; of a grid, in
    which each channel has each bucket, for each channel and for each bucket. What follows `aggregates` has one for each
    place, aggregate after aggregate, and is None where no part has any; `points` has them once where they are the same
    for all aggregates.
    """

    rollup: str
    segment_us: int
    block: int
    first_bucket_us: int
    last_bucket_end_us: int
    channels: pa.Array[Any]
    buckets_us: pa.Array[Any]
    bucket_ends_us: pa.Array[Any]
    labels: pa.Array[Any]
    aggregates: pa.Array[Any]
    points: pa.Array[Any]
    values_float: pa.Array[Any] | None
    values_int: pa.Array[Any] | None
    ats_us: pa.Array[Any] | None
    pivots: pa.Array[Any] | None
    offset_sums: pa.Array[Any] | None
    offset_square_sums: pa.Array[Any] | None
    is_grid: bool

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """The block that `document` gave."""
        columns: dict[str, Any] = {
            name: pa.array(value, _TYPES[name]) if isinstance(value, list) else value
            for name, value in ((name, document.get(name)) for name in _TYPES)
        }
        return cls(**{**columns, "is_grid": bool(columns["is_grid"])})

    @property
    def parts(self) -> int:
        """How many it holds."""
        places = len(self.channels) * len(self.buckets_us) if self.is_grid else len(self.channels)
        return places * len(self.aggregates)

    def document(self) -> dict[str, Any]:
        """The block as JSON has it; what is NULL is left out, and so is that it is no grid."""
        return {
            name: value.to_pylist() if isinstance(value, pa.Array) else value
            for name, value in self._columns()
            if value is not None and value is not False
        }

    def record(self) -> bytes:
        """The block as a binary record."""
        return encode_record([(_TYPES[name], value) for name, value in self._columns()])

    def _columns(self) -> Iterator[tuple[str, Any]]:
        for field in fields(self):
            yield field.name, getattr(self, field.name)


# What an aggregate says besides its points, by the column of a part.
ROLLUP_NUMBERS = ("value_float", "value_int", "at_us", "pivot", "offset_sum", "offset_square_sum")
_TYPES: dict[str, pa.DataType] = {
    "rollup": pa.string(),
    "segment_us": pa.int64(),
    "block": pa.int32(),
    "first_bucket_us": pa.int64(),
    "last_bucket_end_us": pa.int64(),
    "channels": pa.string(),
    "buckets_us": pa.int64(),
    "bucket_ends_us": pa.int64(),
    "labels": pa.string(),
    "aggregates": pa.string(),
    "points": pa.int64(),
    "values_float": pa.float64(),
    "values_int": pa.int64(),
    "ats_us": pa.int64(),
    "pivots": pa.float64(),
    "offset_sums": pa.float64(),
    "offset_square_sums": pa.float64(),
    "is_grid": pa.bool_(),
}


def pack_parts(parts: pa.Table) -> Iterator[RollupBlock]:
    """The parts of one segment in blocks; they stand by rollup, aggregate, channel and bucket, as a scan gives them."""
    start = 0
    for rollup, end in _runs(flat(parts.column("rollup"))):
        yield from _pack(rollup, parts.slice(start, end - start))
        start = end


def _pack(rollup: str, parts: pa.Table) -> Iterator[RollupBlock]:
    aggregates = [name for name, _ in _runs(flat(parts.column("aggregate")))]
    places = parts.num_rows // len(aggregates)
    step = max(1, BLOCK_PARTS // len(aggregates))
    channels, starts_us, ends_us, labels = (
        flat(parts.column(name).slice(0, places))
        for name in ("channel", "bucket_us", "bucket_end_us", "label")
    )
    columns = {name: flat(parts.column(name)) for name in ROLLUP_NUMBERS}
    points = flat(parts.column("points")).to_numpy().reshape(len(aggregates), places)
    buckets = _buckets_of_each(channels, starts_us, ends_us, labels)

    def of_aggregates(name: str, start: int, size: int) -> pa.Array[Any] | None:
        column = columns[name]
        if column.null_count == len(column):
            return None
        if size == places:
            return column
        joined = pa.concat_arrays(
            [column.slice(number * places + start, size) for number in range(len(aggregates))]
        )
        return None if joined.null_count == len(joined) else joined

    for number, (start, size) in enumerate(_cuts(places, step, buckets)):
        # Of a grid so many buckets, each for as many channels as are needed for all places.
        width = size if buckets is None else min(buckets, size)
        own_points = points[:, start : start + size]
        is_same = bool((own_points == own_points[0]).all())
        yield RollupBlock(
            rollup=rollup,
            segment_us=parts.column("segment_us")[0].as_py(),
            block=number,
            first_bucket_us=pc.min(starts_us.slice(start, size)).as_py(),
            last_bucket_end_us=pc.max(ends_us.slice(start, size)).as_py(),
            channels=channels.slice(start, size)
            if buckets is None
            else channels.take(pa.array(np.arange(start, start + size, width))),
            buckets_us=starts_us.slice(start, width),
            bucket_ends_us=ends_us.slice(start, width),
            labels=labels.slice(start, width),
            aggregates=pa.array(aggregates, pa.string()),
            points=pa.array(own_points[0] if is_same else own_points.ravel()),
            values_float=of_aggregates("value_float", start, size),
            values_int=of_aggregates("value_int", start, size),
            ats_us=of_aggregates("at_us", start, size),
            pivots=of_aggregates("pivot", start, size),
            offset_sums=of_aggregates("offset_sum", start, size),
            offset_square_sums=of_aggregates("offset_square_sum", start, size),
            is_grid=buckets is not None,
        )


def _buckets_of_each(
    channels: pa.Array[Any], starts_us: pa.Array[Any], ends_us: pa.Array[Any], labels: pa.Array[Any]
) -> int | None:
    """How many buckets each channel has, if all have the same ones."""
    ends = np.array([end for _, end in _runs(channels)])
    count, rest = divmod(len(channels), len(ends))
    if rest or not np.array_equal(ends, np.arange(count, len(channels) + 1, count)):
        return None
    for column in (starts_us, ends_us, labels.dictionary_encode().indices):
        by_channel = column.to_numpy().reshape(len(ends), count)
        if not (by_channel == by_channel[0]).all():
            return None
    return count


def _cuts(places: int, step: int, buckets: int | None) -> list[tuple[int, int]]:
    """Where blocks begin and how many places each has; in a grid whole channels, or a part of one."""
    whole = step if buckets is None else step // buckets * buckets
    if whole:
        return [(start, min(whole, places - start)) for start in range(0, places, whole)]
    assert buckets is not None
    return [
        (channel + start, min(step, buckets - start))
        for channel in range(0, places, buckets)
        for start in range(0, buckets, step)
    ]


def _runs(column: pa.Array[Any]) -> list[tuple[str, int]]:
    """Each text of a column in which equal ones stand together, and where it ends."""
    encoded = pc.run_end_encode(column)
    return list(zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True))
