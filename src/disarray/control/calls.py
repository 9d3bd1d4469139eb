"""Calls of SQL functions, by what they answer: nothing, one value, rows, or records.

Errors of the database leave as ours. A value is checked to have the type that the caller names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.rows import class_row, dict_row

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import LiteralString

    from disarray.control.connections import Connection

T = TypeVar("T")


def call(connection: Connection, statement: LiteralString, arguments: Sequence[object] = ()) -> None:
    """Call a function for what it does."""
    with translated_errors():
        connection.execute(statement, arguments)


def fetch_value(
    connection: Connection, kind: type[T], statement: LiteralString, arguments: Sequence[object] = ()
) -> T:
    """The one value that a function always answers."""
    value = find_value(connection, kind, statement, arguments)
    assert value is not None, statement
    return value


def find_value(
    connection: Connection, kind: type[T], statement: LiteralString, arguments: Sequence[object] = ()
) -> T | None:
    """The one value that a function answers; None where that is NULL."""
    with translated_errors():
        row = connection.execute(statement, arguments).fetchone()
    value = None if row is None else row[0]
    assert value is None or isinstance(value, kind), f"{statement}: {value!r} is no {kind.__name__}"
    return value


def fetch_rows(
    connection: Connection, statement: LiteralString, arguments: Sequence[object] = (), binary: bool = False
) -> list[tuple[Any, ...]]:
    """All rows, as tuples."""
    with translated_errors(), connection.cursor(binary=binary) as cursor:
        return cursor.execute(statement, arguments).fetchall()


def fetch_dicts(
    connection: Connection, statement: LiteralString, arguments: Sequence[object] = ()
) -> list[dict[str, Any]]:
    """All rows, keyed by column."""
    with translated_errors(), connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement, arguments).fetchall()


def find_record(
    connection: Connection, kind: type[T], statement: LiteralString, arguments: Sequence[object] = ()
) -> T | None:
    """The only row as a record; None where there is none."""
    with translated_errors(), connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(statement, arguments).fetchone()


def fetch_records(
    connection: Connection, kind: type[T], statement: LiteralString, arguments: Sequence[object] = ()
) -> list[T]:
    """All rows, as records of a class whose fields are named like the columns."""
    with translated_errors(), connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(statement, arguments).fetchall()
