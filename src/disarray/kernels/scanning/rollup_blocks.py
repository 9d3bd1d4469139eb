"""Rollup parts of a segment as columns: what travels, and what the database stores as one row."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from disarray.kernels.binary_records import encode_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# A block has about so many parts: some hundred kilobytes to open for whoever wants one of them.
BLOCK_PARTS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupBlock:
    """Parts of one rollup in one segment, named and ordered like the composite type `scanned_rollup`.

    `channels` and the three after it have an element for each bucket of each channel. What follows `aggregates` has as
    many for each of them, aggregate after aggregate, and is None where no part has any.
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

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """The block that `document` gave."""
        columns: dict[str, Any] = {
            name: pa.array(value, _TYPES[name]) if isinstance(value, list) else value
            for name, value in ((name, document.get(name)) for name in _TYPES)
        }
        return cls(**columns)

    @property
    def parts(self) -> int:
        """How many it holds."""
        return len(self.points)

    def document(self) -> dict[str, Any]:
        """The block as JSON has it; what is NULL is left out."""
        return {
            name: value.to_pylist() if isinstance(value, pa.Array) else value
            for name, value in self._columns()
            if value is not None
        }

    def record(self) -> bytes:
        """The block as a binary record."""
        return encode_record([(_TYPES[name], value) for name, value in self._columns()])

    def _columns(self) -> Iterator[tuple[str, Any]]:
        for field in fields(self):
            yield field.name, getattr(self, field.name)


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
}


def pack_parts(parts: pa.Table) -> Iterator[RollupBlock]:
    """The parts of one segment in blocks; they stand by rollup, aggregate, channel and bucket, as a scan gives them."""
    start = 0
    for rollup, rows in _counts(parts.column("rollup")):
        yield from _pack(rollup, parts.slice(start, rows).combine_chunks())
        start += rows


def _pack(rollup: str, parts: pa.Table) -> Iterator[RollupBlock]:
    columns = {name: parts.column(name).chunk(0) for name in parts.column_names}
    aggregates = [name for name, _ in _counts(parts.column("aggregate"))]
    places = parts.num_rows // len(aggregates)
    step = max(1, BLOCK_PARTS // len(aggregates))

    def of_aggregates(name: str, start: int) -> pa.Array[Any] | None:
        column = columns[name]
        if column.null_count == len(column):
            return None
        size = min(step, places - start)
        if size == places:
            return column
        joined = pa.concat_arrays(
            [column.slice(number * places + start, size) for number in range(len(aggregates))]
        )
        return None if joined.null_count == len(joined) else joined

    for number, start in enumerate(range(0, places, step)):
        size = min(step, places - start)
        buckets, ends = columns["bucket_us"].slice(start, size), columns["bucket_end_us"].slice(start, size)
        points = of_aggregates("points", start)
        assert points is not None
        yield RollupBlock(
            rollup=rollup,
            segment_us=columns["segment_us"][0].as_py(),
            block=number,
            first_bucket_us=pc.min(buckets).as_py(),
            last_bucket_end_us=pc.max(ends).as_py(),
            channels=columns["channel"].slice(start, size),
            buckets_us=buckets,
            bucket_ends_us=ends,
            labels=columns["label"].slice(start, size),
            aggregates=pa.array(aggregates, pa.string()),
            points=points,
            values_float=of_aggregates("value_float", start),
            values_int=of_aggregates("value_int", start),
            ats_us=of_aggregates("at_us", start),
            pivots=of_aggregates("pivot", start),
            offset_sums=of_aggregates("offset_sum", start),
            offset_square_sums=of_aggregates("offset_square_sum", start),
        )


def _counts(column: pa.ChunkedArray[Any]) -> list[tuple[str, int]]:
    """The texts of a column in the order in which they first appear, and how often each does."""
    return [(each["values"], each["counts"]) for each in pc.value_counts(column).to_pylist()]
