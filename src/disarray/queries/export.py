"""Tables into files that other programs read: all of it or no file at all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from disarray.control import values
from disarray.control.snapshots import snapshot
from disarray.errors import ExportError
from disarray.model.segments import microseconds_of
from disarray.queries.bases import by_channel, end_value
from disarray.queries.readings import INSTANT
from disarray.queries.rollup_buckets import rollup
from disarray.store.definitions import assert_made_under

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import RawIOBase
    from pathlib import Path

    from disarray.control.connections import Connection
    from disarray.control.values import Number
    from disarray.model.description.dataset import Dataset

# A number stands in the column of its type: a common one would cost large integers their last bits.
_NUMBER = [("int_value", pa.int64()), ("float_value", pa.float64()), ("is_final", pa.bool_())]
METRICS_SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("subject_key", pa.string()),
        ("metric", pa.string()),
        ("unit", pa.string()),
        ("channel", pa.string()),
        ("segment_start", INSTANT),
        ("last_reading", INSTANT),
        ("readings", pa.int64()),
        *_NUMBER,
    ]
)
ROLLUPS_SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("subject_key", pa.string()),
        ("rollup", pa.string()),
        ("channel", pa.string()),
        ("bucket_start", INSTANT),
        ("bucket_end", INSTANT),
        ("label", pa.string()),
        ("aggregate", pa.string()),
        ("points", pa.int64()),
        *_NUMBER,
    ]
)


class FileFormat(StrEnum):
    """What an export can be."""

    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


# A spreadsheet takes a cell that begins so for a formula, and a formula can send what is beside it anywhere.
_FORMULA = r"^[=+\-@\t\r\n]"
_PLAIN_NUMBER = r"^[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?$"


@contextmanager
def table_writer(
    path: Path, schema: pa.Schema, file_format: FileFormat, *, escapes_formulas: bool = True
) -> Iterator[Callable[[pa.Table], None]]:
    """Writes tables one after the other; the file appears under its name once all of it is written.

    In CSV, text that a spreadsheet would take for a formula gets an apostrophe before it, unless told otherwise.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _open_writer(str(part), schema, file_format) as writer:
            yield _writing(writer, file_format, escapes_formulas=escapes_formulas)
        part.replace(path)
    except OSError as error:
        raise ExportError(
            f"{path} cannot be written: {error.strerror or error}. Nothing was changed"
        ) from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def stream_writer(
    stream: RawIOBase, schema: pa.Schema, file_format: FileFormat, *, escapes_formulas: bool = True
) -> Iterator[Callable[[pa.Table], None]]:
    """The same into a pipe: whoever reads it sees tables as they are written, and has to look whether we ended well."""
    with _open_writer(stream, schema, file_format) as writer:
        yield _writing(writer, file_format, escapes_formulas=escapes_formulas)


def without_formulas(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before every text that a spreadsheet would compute; numbers are left alone."""
    for number, field in enumerate(table.schema):
        if not pa.types.is_string(field.type):
            continue
        column = table.column(number)
        risky = pc.and_(
            pc.match_substring_regex(column, _FORMULA),
            pc.invert(pc.match_substring_regex(column, _PLAIN_NUMBER)),
        )
        if pc.any(risky).as_py():
            escaped = pc.binary_join_element_wise("'", column, "")
            table = table.set_column(number, field, pc.if_else(risky, escaped, column))
    return table


def metrics_tables(
    connection: Connection, dataset: Dataset, subject_key: str, *, from_us: int, to_us: int
) -> Iterator[pa.Table]:
    """The value of each metric after the last reading of each segment that starts in [from_us, to_us)."""
    with snapshot(connection):
        assert_made_under(connection, dataset, subject_key)
        stale_from = values.stale_from(connection, dataset.name, subject_key)
        pieces = {
            metric: values.load_bases(
                connection, dataset.name, subject_key, metric=metric.name, from_us=from_us, to_us=to_us - 1
            )
            for metric in dataset.metrics
        }
    stale_from_us = None if stale_from is None else microseconds_of(stale_from)
    for metric, found in pieces.items():
        rows = [
            {
                "dataset": dataset.name,
                "subject_key": subject_key,
                "metric": metric.name,
                "unit": metric.unit,
                "channel": channel,
                "segment_start": segment.head.segment_us,
                "last_reading": segment.tail.last_reading_us,
                "readings": segment.head.readings
                + (segment.tail.readings if segment.tail is not segment.head else 0),
                "is_final": stale_from_us is None or segment.head.segment_us < stale_from_us,
            }
            | _typed(end_value(metric, segment))
            for channel, segments in by_channel(found).items()
            for segment in segments
            if segment.head.segment_us >= from_us
        ]
        yield pa.Table.from_pylist(rows, schema=METRICS_SCHEMA)


def rollups_tables(
    connection: Connection, dataset: Dataset, subject_key: str, *, from_us: int, to_us: int
) -> Iterator[pa.Table]:
    """Every bucket that overlaps [from_us, to_us), a row for each aggregate."""
    for each in dataset.rollups:
        found = rollup(
            connection, dataset=dataset, subject_key=subject_key, rollup=each, from_us=from_us, to_us=to_us
        )
        rows = [
            {
                "dataset": dataset.name,
                "subject_key": subject_key,
                "rollup": each.name,
                "channel": bucket.channel,
                "bucket_start": bucket.start_us,
                "bucket_end": bucket.end_us,
                "label": bucket.label,
                "aggregate": aggregate,
                "points": bucket.points.get(aggregate, 0),
                "is_final": bucket.is_final,
            }
            | _typed(number)
            for bucket in found.buckets
            for aggregate, number in bucket.numbers.items()
        ]
        yield pa.Table.from_pylist(rows, schema=ROLLUPS_SCHEMA)


def _typed(number: Number | None) -> dict[str, Number | None]:
    return {"int_value" if isinstance(number, int) else "float_value": number}


def _writing(writer: Any, file_format: FileFormat, *, escapes_formulas: bool) -> Callable[[pa.Table], None]:
    write: Callable[[pa.Table], None] = writer.write_table
    if file_format is FileFormat.CSV and escapes_formulas:
        return lambda table: write(without_formulas(table))
    return write


def _open_writer(sink: str | RawIOBase, schema: pa.Schema, file_format: FileFormat) -> Any:
    match file_format:
        case FileFormat.CSV:
            return pa_csv.CSVWriter(sink, schema)
        case FileFormat.PARQUET:
            return pq.ParquetWriter(sink, schema, compression="zstd")
        case FileFormat.ARROW:
            # A pipe cannot be gone back in: there it is the streaming form, which has no index at its end.
            return pa.ipc.new_file(sink, schema) if isinstance(sink, str) else pa.ipc.new_stream(sink, schema)
        case _:
            assert_never(file_format)
