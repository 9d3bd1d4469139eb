"""The table of a destination, measured where it is: how many rows a subject has there, and their checksum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from disarray.backfill.checksum import checksum_of_halves
from disarray.backfill.row_sums import RowSum
from disarray.backfill.table_layout import Column
from disarray.backfill.user_database.fragments import measure_of
from disarray.kernels.binary_copy import COPY_TYPES
from disarray.model.description.destination import Load
from disarray.model.segments import FIRST_US, datetime_of
from disarray.sinks.destination_changes import END_US
from disarray.sinks.destination_database import target_errors
from disarray.sinks.destination_shape import COMMIT, SUBJECT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.sinks.destination_changes import Span
    from disarray.sinks.destination_database import TableLoader

# By the type as SQL writes it, its name in `pg_type`.
_NAMES = {
    "bigint": "int8",
    "double precision": "float8",
    "boolean": "bool",
    "text": "text",
    "timestamp with time zone": "timestamptz",
}


def measure_table(loader: TableLoader, subject_key: str, spans: Sequence[Span]) -> RowSum:
    """Rows of a subject in some spans; of an appended table, the newest of each key."""
    statements = loader.statements
    shape, target = statements.shape, statements.target
    suffix = "_newest" if loader.destination.load is Load.APPEND else ""
    columns = [
        Column(shape.target_name(field.name), type_text, _NAMES[type_text], True, False)
        for field in shape.loaded
        if field.name != COMMIT
        for type_text in [COPY_TYPES[field.type]]
    ]
    time = sql.Identifier(shape.target_name(shape.time))
    rows = sql.SQL("select {typed} from {table} where {subject} = {key} and ({spans})").format(
        # Their types may be wider than ours: what counts is the value.
        typed=sql.SQL(", ").join(
            sql.SQL("{0}::{1} as {0}").format(sql.Identifier(column.name), sql.SQL(column.type_text))
            for column in columns
        ),
        table=sql.Identifier(target.schema, target.table + suffix),
        subject=sql.Identifier(shape.target_name(SUBJECT)),
        key=sql.Literal(subject_key),
        spans=sql.SQL(" or ").join(
            sql.SQL("({0} >= {1}::timestamptz and {0} < {2}::timestamptz)").format(
                time, _instant(span.from_us), _instant(span.to_us)
            )
            for span in spans
        )
        if spans
        else sql.SQL("false"),
    )
    with target_errors(loader.destination):
        found = loader.connection.execute(measure_of(rows, columns)).fetchone()
    assert found is not None
    _, _, count, *sums = found
    return RowSum(count, int(checksum_of_halves(*sums), 16))


def _instant(at_us: int) -> sql.Literal:
    if at_us <= FIRST_US:
        return sql.Literal("-infinity")
    return sql.Literal("infinity" if at_us >= END_US else datetime_of(at_us).isoformat())
