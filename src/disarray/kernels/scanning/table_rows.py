"""The readings of a segment as rows of the table of their dataset, and back."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from disarray.kernels.fragments.ordering import digest_table
from disarray.kernels.parsing.columns import ARROW_TYPES
from disarray.kernels.scanning.running_values import Locals
from disarray.kernels.scanning.value_texts import same_text
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION
from disarray.model.description.readings_table import (
    CHANNEL_COLUMN,
    EVENT_AT,
    ORDINAL,
    POSITION_COLUMN,
    SEGMENT_US,
    SOURCE_ID,
    SUBJECT_KEY,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.kernels.scanning.merging import Merged
    from disarray.model.description.metrics import Metric
    from disarray.model.description.readings_table import ReadingsTable, TableMetric

_INSTANT = pa.timestamp("us", tz="UTC")
_LEAST_BLOCK = 1024
_MOST_BLOCKS = 16


def table_rows(
    merged: Merged,
    locals_of: Mapping[str, Locals],
    table: ReadingsTable,
    *,
    subject: str,
    segment_us: int,
    source_ids: Mapping[str, int],
) -> pa.Table:
    """A row for each reading in canonical order; `source_ids` has the number of every uri."""
    readings, rows = merged.readings, merged.readings.num_rows
    numbers = np.array([source_ids[uri_of(key)] for key in merged.uris], dtype=np.int32)
    columns: dict[str, Any] = {
        EVENT_AT: readings.column(EVENT_US).cast(_INSTANT),
        SEGMENT_US: np.full(rows, segment_us),
        POSITION_COLUMN: readings.column(POSITION),
        ORDINAL: np.arange(rows, dtype=np.int32),
        SOURCE_ID: numbers[merged.sources] if rows else np.empty(0, dtype=np.int32),
        SUBJECT_KEY: same_text(subject, rows),
        CHANNEL_COLUMN: readings.column(CHANNEL) if CHANNEL in readings.column_names else same_text("", rows),
    }
    columns |= {column.name: readings.column(column.column) for column in table.columns}
    for metric in table.metrics:
        folded = locals_of[metric.metric]
        # NULL says that no point has come yet; an additive fold is never NULL for any other reason.
        waits = pa.array(folded.waits)
        columns[metric.local] = pc.if_else(waits, pa.scalar(None, folded.values.type), folded.values)
        if metric.restarted is not None:
            columns[metric.restarted] = pa.array(folded.restarted)
    schema = row_schema(table)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def row_schema(table: ReadingsTable) -> pa.Schema:
    """The columns of a table of readings as they are copied into it."""
    fields = [
        (EVENT_AT, _INSTANT),
        (SEGMENT_US, pa.int64()),
        (POSITION_COLUMN, pa.int64()),
        (ORDINAL, pa.int32()),
        (SOURCE_ID, pa.int32()),
        (SUBJECT_KEY, pa.string()),
        (CHANNEL_COLUMN, pa.string()),
    ]
    fields += [(column.name, ARROW_TYPES[column.type]) for column in table.columns]
    for metric in table.metrics:
        fields.append((metric.local, ARROW_TYPES[metric.type]))
        if metric.restarted is not None:
            fields.append((metric.restarted, pa.bool_()))
    return pa.schema(fields)


def fact_schema(table: ReadingsTable) -> pa.Schema:
    """As `row_schema`, with the numbers that a table holds in the place of dimension values."""
    schema = row_schema(table)
    for column in table.dimensions:
        schema = schema.set(schema.get_field_index(column.name), pa.field(column.name, pa.int32()))
    return schema


def digest_rows(rows: pa.Table, source_uris: Sequence[str], sources: Any) -> str:
    """Hashes of all that the rows say, block after block: readings, folds, and where they came from.

    `sources` has for each row the index of its uri in `source_uris`.
    """
    return ".".join(_digest_blocks(rows, source_uris, sources, block=_block_rows(rows.num_rows)))


def count_rows_alike(
    rows: pa.Table, source_uris: Sequence[str], sources: Any, *, stored_rows: int, stored_digest: str
) -> int:
    """How many of the first rows are those which a table has, by its digest: all that precede a block that differs."""
    block = _block_rows(stored_rows)
    found = _digest_blocks(rows.slice(0, stored_rows), source_uris, sources[:stored_rows], block=block)
    known = stored_digest.split(".")
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(found, known, strict=False)))
    return stored_rows if alike == len(known) else alike * block


def _block_rows(rows: int) -> int:
    """Some sixteen blocks in a segment, so that a late row leaves most of what stands to the left of it alone."""
    block = _LEAST_BLOCK
    while block * _MOST_BLOCKS < rows:
        block *= 2
    return block


def _digest_blocks(rows: pa.Table, source_uris: Sequence[str], sources: Any, *, block: int) -> list[str]:
    marks = np.array(
        [int.from_bytes(blake3(uri.encode()).digest(length=8), "little", signed=True) for uri in source_uris],
        dtype=np.int64,
    )
    columns = sorted(set(rows.column_names) - {SEGMENT_US, ORDINAL, SOURCE_ID, SUBJECT_KEY})
    whole = rows.select(columns).append_column("_source", pa.array(marks[sources] if len(marks) else sources))
    return [digest_table(whole.slice(start, block)) for start in range(0, whole.num_rows, block)]


def locals_from_rows(rows: pa.Table, column: TableMetric, metric: Metric) -> Locals:
    """The folds within a segment as `local_values` has them, from the rows that they were kept in."""
    values = rows.column(column.local).combine_chunks()
    no_point = values.is_null().to_numpy(zero_copy_only=False)
    restarted = np.zeros(len(values), dtype=np.bool_)
    if column.restarted is not None:
        restarted = rows.column(column.restarted).combine_chunks().to_numpy(zero_copy_only=False)
    return Locals(values if metric.kind.is_extreme else values.fill_null(0), no_point & ~restarted, restarted)


def uri_of(order_key: str) -> str:
    """The uri in what stands for it in the canonical order."""
    return order_key.partition("\0")[0]
