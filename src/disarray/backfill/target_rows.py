"""The rows of a subject in the target of a destination and as they are answered here: count and checksum of both."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from disarray.backfill.checksum import row_hash, shown_checksum
from disarray.backfill.user_database.target_table import measure_table
from disarray.sinks.destination_changes import WHOLE, Changes
from disarray.sinks.destination_rows import SubjectRows
from disarray.sinks.destination_shape import COMMIT, shape_of
from disarray.sinks.destination_targets import Elsewhere, SameDatabase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.sinks.destination_changes import Span
    from disarray.sinks.destination_loader import DestinationLoader
    from disarray.sinks.destination_shape import Shape
    from disarray.sinks.destination_targets import OpenTarget


@dataclass(frozen=True, slots=True)
class MeasuredRows:
    """How many rows, and the checksum of all that is loaded but the number of the commit."""

    rows: int
    checksum: str


def answered_rows(
    loader: DestinationLoader, subject_key: str, *, commit_seq: int
) -> tuple[MeasuredRows, list[Span]]:
    """What is answered here of a subject, and the spans of which nobody knows the rows any more."""
    shape = shape_of(loader.destination)
    count = total = 0
    with loader.pool.connection() as connection:
        rows = SubjectRows(
            connection=connection,
            lake=loader.lake,
            destination=loader.destination,
            shape=shape,
            subject_key=subject_key,
            commit_seq=commit_seq,
            changes=WHOLE,
        )
        for table in rows:
            count += table.num_rows
            total += _sum_of_hashes(table, shape)
    return MeasuredRows(count, shown_checksum(total)), rows.kept


def target_rows(target: OpenTarget, subject_key: str, spans: Sequence[Span]) -> MeasuredRows:
    """What a target has of a subject in some spans."""
    if isinstance(target, SameDatabase | Elsewhere):
        return MeasuredRows(*measure_table(target.loader, subject_key, spans))
    from disarray.sinks.destination_delta import DeltaLoader

    assert isinstance(target, DeltaLoader)
    table = target.rows_of(subject_key, Changes(tuple(spans)))
    return MeasuredRows(table.num_rows, shown_checksum(_sum_of_hashes(table, target.shape)))


def compared_columns(shape: Shape) -> list[pa.Field[Any]]:
    """All that is loaded but the commit, which says when a row became what it is."""
    return [field for field in shape.loaded if field.name != COMMIT]


def _sum_of_hashes(table: pa.Table, shape: Shape) -> int:
    columns = [_texts(table.column(field.name)) for field in compared_columns(shape)]
    return sum(map(row_hash, zip(*columns, strict=True)))


def _texts(column: pa.ChunkedArray[Any]) -> list[str | None]:
    """Values as the texts that are hashed, as `value_text` writes them, a column at once."""
    if pa.types.is_floating(column.type):
        return [None if value is None else struct.pack(">d", value).hex() for value in column.to_pylist()]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    return texts
