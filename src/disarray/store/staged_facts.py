"""Rows of a table that has dimensions, on their way: staged with their values, copied with the numbers of these.

Which numbers stand for new values is known only inside the transaction of the commit. So a task stages Arrow batches in
which each value stands once, and the commit numbers the values and makes rows of the batches: 0.1 s for a million.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from disarray.errors import DimensionTooWideError, FragmentWriteError
from disarray.kernels.binary_copy import encode_rows, refuse_nul
from disarray.kernels.scanning.table_rows import fact_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disarray.model.description.readings_table import ReadingsTable
    from disarray.store.staging import StagedRows

_BATCH = 65_536
# A commit brings so many values of a column at most: they are held in memory.
MOST_VALUES = 1_000_000


def stage_facts(rows: pa.Table, table: ReadingsTable) -> bytes:
    """Rows as they lie in a staging file: batches of Arrow, each value of a dimension once."""
    for field in rows.schema:
        if pa.types.is_string(field.type):
            refuse_nul(rows.column(field.name).combine_chunks(), field.name)
    for column in table.dimensions:
        place = rows.schema.get_field_index(column.name)
        encoded = rows.column(column.name).combine_chunks().dictionary_encode()
        rows = rows.set_column(place, column.name, encoded)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=_BATCH)
    staged: bytes = sink.getvalue().to_pybytes()
    return staged


def staged_values(batch: Sequence[StagedRows], table: ReadingsTable) -> dict[str, list[str]]:
    """The values that staged rows name, by column in the order of `dimensions`, each list in that of UTF-8 bytes."""
    found: dict[str, set[str]] = {column.name: set() for column in table.dimensions}
    for staged in batch:
        with _opened(staged) as reader:
            # The dictionaries are those of the first batch: each is staged once.
            first = reader.read_next_batch()
        for name, values in found.items():
            values.update(first.column(name).dictionary.to_pylist())
            if len(values) > MOST_VALUES:
                raise DimensionTooWideError(
                    f"column '{name}' of dataset '{table.dataset}' is declared a dimension, and one commit brings more "
                    f"than {MOST_VALUES:,} values of it. Nothing was written. Remove dimension = true from the column"
                )
    return {name: sorted(values) for name, values in found.items()}


def fact_pieces(
    staged: StagedRows, table: ReadingsTable, numbers: Mapping[str, Mapping[str, int]]
) -> Iterator[bytes]:
    """Staged rows as binary COPY takes them, numbers in the place of values."""
    schema = fact_schema(table)
    with _opened(staged) as reader:
        for batch in reader:
            columns = [
                _numbered(batch.column(name), numbers[name]) if name in numbers else batch.column(name)
                for name in schema.names
            ]
            yield from encode_rows(pa.table(columns, schema=schema))


def _numbered(column: pa.DictionaryArray, numbers: Mapping[str, int]) -> pa.Array[pa.Int32Scalar]:
    return pa.array([numbers[value] for value in column.dictionary.to_pylist()], pa.int32()).take(
        column.indices
    )


@contextmanager
def _opened(staged: StagedRows) -> Iterator[pa.RecordBatchStreamReader]:
    try:
        with Path(staged.path).open("rb") as file:
            file.seek(staged.offset)
            with pa.ipc.open_stream(file) as reader:
                yield reader
    except (pa.ArrowInvalid, StopIteration) as error:
        raise FragmentWriteError(
            f"{staged.path} is not as it was written ({error}). Nothing was committed; retry"
        ) from error
