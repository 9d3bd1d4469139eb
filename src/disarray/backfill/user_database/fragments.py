"""Parts of statements on a table of a user: names, literals, and the hash of a row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, LiteralString

from psycopg import sql

from disarray.backfill.checksum import ValueRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.backfill.table_layout import Column


_LENGTH = re.compile(r"(?<=character varying)\([0-9]+\)|(?<=numeric)\([0-9,]+\)")


def own_sql(text: str) -> sql.Composable:
    """SQL of the operator, as it is; a comment at its end must not swallow what follows.

    Statements with it take no parameters: a `%` in it would be read as one.
    """
    return sql.SQL(f"{text}\n")


def type_of(column: Column) -> sql.Composable:
    """The type of a column."""
    # Written by the server itself (`format_type`), and quoted by it where that is needed.
    return sql.SQL(column.type_text)


def array_of(column: Column) -> sql.Composable:
    """The type of an array of values of a column, without its length: a cast to it would cut values off silently.

    The assignment that follows knows the length, and refuses what does not fit.
    """
    if column.type_name == "bpchar":
        return sql.SQL("bpchar[]")
    return sql.SQL(f"{_LENGTH.sub('', column.type_text)}[]")


def listed(columns: Sequence[Column], suffix: sql.SQL | None = None) -> sql.Composed:
    """Columns by name, with commas between."""
    return sql.SQL(", ").join(sql.Identifier(column.name) + (suffix or sql.SQL("")) for column in columns)


def readable(column: Column) -> sql.Composable:
    """A column as a function gets it: types that Arrow does not know come as text."""
    name = sql.Identifier(column.name)
    is_text = column.rule is ValueRule.OPAQUE or column.type_name == "uuid"
    return sql.SQL("{}::text").format(name) if is_text else name


def text_of(column: Column) -> sql.Composable:
    """A value as the text that is hashed, as `checksum.value_text` writes it."""
    forms: dict[ValueRule, LiteralString] = {
        ValueRule.PLAIN: "{}::text",
        ValueRule.BITS: (
            "case when {0}::float8 = 'NaN' then '7ff8000000000000' else encode(float8send({0}::float8), 'hex') end"
        ),
        ValueRule.DECIMAL: "trim_scale({})::text",
        ValueRule.INSTANT: (
            "case when isfinite({0}) then (extract(epoch from {0}) * 1000000)::bigint::text else {0}::text end"
        ),
        ValueRule.BYTES: "encode({}, 'hex')",
        ValueRule.OPAQUE: "{}::text",
    }
    return sql.SQL(forms[column.rule]).format(sql.Identifier(column.name))


def listed_as_texts(columns: Sequence[Column]) -> sql.Composed:
    """Values as the texts that are hashed, named text_0 and so on."""
    return sql.SQL(", ").join(
        sql.SQL("{} as {}").format(text_of(column), sql.Identifier(f"text_{index}"))
        for index, column in enumerate(columns)
    )


def hash_of(width: int) -> sql.Composed:
    """The hash of a row from its texts."""
    parts = (
        sql.SQL("coalesce(length({0}) || ':' || {0}, '-')").format(sql.Identifier(f"text_{index}"))
        for index in range(width)
    )
    return sql.SQL("md5({})").format(sql.SQL(" || ").join(parts))


def measure_of(rows: sql.Composable, columns: Sequence[Column]) -> sql.Composed:
    """A query of one row: the oldest transaction under way, our own, how many rows, and the sums behind a checksum.

    `rows` is a query that has the columns. `offset 0` keeps the server from computing a hash once for each use of it:
    that took three times as long.
    """
    return sql.SQL(
        """
        select
            pg_snapshot_xmin(pg_current_snapshot())::xid::text,
            pg_current_xact_id_if_assigned()::xid::text,
            count(*),
            sum(high),
            sum(low),
            count(*) filter (where low < 0)
        from (
            select
                ('x' || substr(hash, 1, 16))::bit(64)::bigint as high,
                ('x' || substr(hash, 17, 16))::bit(64)::bigint as low
            from (
                select {hash} as hash from (select {texts} from ({rows}) as rows) as texts offset 0
            ) as hashed
            offset 0
        ) as halves
        """
    ).format(hash=hash_of(len(columns)), texts=listed_as_texts(columns), rows=rows)


def key_arrays(keys: Sequence[tuple[str, ...]], columns: Sequence[Column]) -> list[sql.Composable]:
    """The keys of rows as one array for each column of the cursor."""
    return [
        sql.SQL("{}::text[]::{}").format(sql.Literal([key[index] for key in keys]), array_of(column))
        for index, column in enumerate(columns)
    ]
