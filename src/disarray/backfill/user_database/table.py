"""The statements of one job on its table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg import sql

from disarray.backfill.checksum import checksum_of_halves
from disarray.backfill.kind import Cut
from disarray.backfill.user_database.fragments import (
    array_of,
    hash_of,
    key_arrays,
    listed,
    listed_as_texts,
    measure_of,
    own_sql,
    readable,
    type_of,
)
from disarray.backfill.user_database.session import user_errors
from disarray.errors import BackfillTargetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.backfill.description import UpdateSpec
    from disarray.backfill.table_layout import TableLayout
    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class Stretch:
    """A span of the cursor: behind `after` (None: from the first row), up to and with `to`."""

    after: tuple[str, ...] | None
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A stretch as it is stored: how many rows, and the checksum of cursor and set columns."""

    rows: int
    checksum: str
    oldest_xid: str = field(compare=False)  # of the transactions that were under way: none of theirs is in it
    own_xid: str | None = field(compare=False)  # in which it was measured, where that had written


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows as they were read: keys and versions as text, and the values of the columns that a function gets."""

    keys: list[tuple[str, ...]]
    versions: list[str | None]
    values: dict[str, list[Any]]


class UserTable:
    """The table of one job, as it was when it was looked at."""

    def __init__(self, spec: UpdateSpec, layout: TableLayout) -> None:
        self.spec = spec
        self.layout = layout
        self.cursor = [layout.column(name) for name in spec.source.cursor]
        self.set_columns = [layout.column(name) for name in spec.set_columns]
        self._table = sql.Identifier(layout.schema, layout.table)
        self._keys = listed(self.cursor)
        self._key_texts = sql.SQL(", ").join(
            # With a name of its own: `order by id` would sort by a text that is called id.
            sql.SQL("{}::text as {}").format(
                sql.Identifier(key.name), sql.Identifier(f"disarray_key_{index}")
            )
            for index, key in enumerate(self.cursor)
        )
        self._filter = own_sql(spec.source.where) if spec.source.where else sql.SQL("true")
        self._what = f"{layout.schema}.{layout.table}"

    def has_null_cursor(self, connection: Connection) -> bool:
        """Whether a row has no cursor: no chunk would ever reach it."""
        nullable = [key for key in self.cursor if key.is_nullable]
        if not nullable:
            return False
        is_null = sql.SQL(" or ").join(
            sql.SQL("{} is null").format(sql.Identifier(key.name)) for key in nullable
        )
        statement = sql.SQL("select exists (select from {} where {})").format(self._table, is_null)
        return bool(self._row(connection, statement)[0])

    def count(self, connection: Connection) -> int:
        """How many rows it has, exactly."""
        return int(self._row(connection, sql.SQL("select count(*) from {}").format(self._table))[0])

    def last_cursor(self, connection: Connection) -> tuple[str, ...] | None:
        """The greatest cursor; None of an empty table."""
        statement = sql.SQL("select {} from {} order by {} limit 1").format(
            self._key_texts, self._table, listed(self.cursor, sql.SQL(" desc"))
        )
        with user_errors(self._what):
            found = connection.execute(statement).fetchone()
        return None if found is None else tuple(found)

    def cut(
        self, connection: Connection, after: Sequence[str] | None, *, end: Sequence[str], rows: int
    ) -> Cut:
        """The next stretch of so many rows behind a cursor; the last reaches to the end, with rows or without."""
        statement = sql.SQL(
            """
            select {texts}, rows_found
            from (
                select {keys}, count(*) over () as rows_found
                from (select {keys} from {table} where {span} order by {keys} limit {rows}) as next_rows
            ) as counted
            order by {backwards}
            limit 1
            """
        ).format(
            texts=self._key_texts,
            keys=self._keys,
            table=self._table,
            span=self._span(Stretch(None if after is None else tuple(after), tuple(end))),
            rows=sql.Literal(rows),
            backwards=listed(self.cursor, sql.SQL(" desc")),
        )
        with user_errors(self._what):
            found = connection.execute(statement).fetchone()
        if found is None:
            return Cut(tuple(end), 0, True)
        *key, count = found
        is_last = count < rows or tuple(key) == tuple(end)
        return Cut(tuple(end) if is_last else tuple(key), count, is_last)

    def update_rows(self, connection: Connection, stretch: Stretch) -> int:
        """Set the columns of a stretch by the expressions: how many rows.

        One statement, so a row that somebody changes meanwhile is waited for, and computed from its newest version.
        """
        assignments = sql.SQL(", ").join(
            sql.SQL("{} = ({})").format(sql.Identifier(column), own_sql(expression))
            for column, expression in self.spec.update.expressions.items()
        )
        statement = sql.SQL("update {} set {} where {} and ({})").format(
            self._table, assignments, self._span(stretch), self._filter
        )
        with user_errors(self._what):
            return connection.execute(statement).rowcount

    def read_rows(self, connection: Connection, stretch: Stretch) -> RowsRead:
        """The rows of a stretch with their versions."""
        return self._read(connection, self._span(stretch), lock=False)

    def read_again(self, connection: Connection, keys: Sequence[tuple[str, ...]], *, lock: bool) -> RowsRead:
        """Rows by their keys, as they are now; locked, nobody changes them until the transaction ends."""
        given = sql.SQL(", ").join(key_arrays(keys, self.cursor))
        span = sql.SQL("({}) in (select * from unnest({}))").format(self._keys, given)
        return self._read(connection, span, lock=lock)

    def write_rows(
        self,
        connection: Connection,
        keys: Sequence[tuple[str, ...]],
        versions: Sequence[str | None],
        values: Sequence[Sequence[Any]],
    ) -> dict[tuple[str, ...], str]:
        """Write values to rows that still have their version: the hash of each row that was written, by its key."""
        key_names = [f"key_{index}" for index in range(len(self.cursor))]
        value_names = [f"value_{index}" for index in range(len(self.set_columns))]
        statement = sql.SQL(
            """
            with written as (
                update {table} set {assignments}
                from unnest({arrays}) as disarray_new ({names})
                where {matches} and {own}.{version}::text is not distinct from disarray_new.version
                returning {returned}
            )
            select {names_of_keys}, {hash} from (select {texts}, {hashed} from written) as written
            """
        ).format(
            table=self._table,
            own=sql.Identifier(self.layout.table),
            assignments=sql.SQL(", ").join(
                sql.SQL("{} = disarray_new.{}").format(sql.Identifier(column.name), sql.Identifier(name))
                for column, name in zip(self.set_columns, value_names, strict=True)
            ),
            arrays=sql.SQL(", ").join(
                [
                    *key_arrays(keys, self.cursor),
                    sql.SQL("{}::text[]").format(sql.Literal(list(versions))),
                    *(
                        sql.SQL("{}::{}").format(sql.Literal(list(given)), array_of(column))
                        for column, given in zip(self.set_columns, values, strict=True)
                    ),
                ]
            ),
            names=sql.SQL(", ").join(map(sql.Identifier, [*key_names, "version", *value_names])),
            matches=sql.SQL(" and ").join(
                sql.SQL("{}.{} = disarray_new.{}").format(
                    sql.Identifier(self.layout.table), sql.Identifier(key.name), sql.Identifier(name)
                )
                for key, name in zip(self.cursor, key_names, strict=True)
            ),
            version=sql.Identifier(self.spec.update.version),
            returned=sql.SQL(", ").join(
                sql.SQL("{}.{}").format(sql.Identifier(self.layout.table), sql.Identifier(column.name))
                for column in [*self.cursor, *self.set_columns]
            ),
            names_of_keys=sql.SQL(", ").join(
                sql.Identifier(f"disarray_key_{index}") for index in range(len(self.cursor))
            ),
            texts=self._key_texts,
            hashed=listed_as_texts([*self.cursor, *self.set_columns]),
            hash=hash_of(len(self.cursor) + len(self.set_columns)),
        )
        with user_errors(self._what):
            rows = connection.execute(statement).fetchall()
        return {tuple(key): found for *key, found in rows}

    def measure(self, connection: Connection, stretch: Stretch) -> Measured:
        """How many rows a stretch has, their checksum, and who was under way when they were looked at."""
        hashed = [*self.cursor, *self.set_columns]
        rows = sql.SQL("select {} from {} where {}").format(listed(hashed), self._table, self._span(stretch))
        oldest_xid, own_xid, count, *sums = self._row(connection, measure_of(rows, hashed))
        return Measured(count, checksum_of_halves(*sums), oldest_xid, own_xid)

    def changed_since(
        self, connection: Connection, stretch: Stretch, *, own_xid: str, oldest_xid: str
    ) -> int:
        """How many rows of a stretch others may have written after a transaction measured it.

        One that began before and ended after has a smaller number than ours: what counts is who was under way then. Of
        savepoints the server tells no numbers, so all from the oldest of those on are taken for later ones.
        """
        statement = sql.SQL(
            "select count(*) from {} where {} and xmin::text <> {own} and age(xmin) <= age({oldest}::xid)"
        ).format(self._table, self._span(stretch), own=sql.Literal(own_xid), oldest=sql.Literal(oldest_xid))
        return int(self._row(connection, statement)[0])

    def breaking(self, connection: Connection, stretch: Stretch, check: str) -> int:
        """How many rows of a stretch do not hold what a transformed row holds."""
        statement = sql.SQL("select count(*) from {} where {} and ({}) is not true").format(
            self._table, self._span(stretch), own_sql(check)
        )
        return int(self._row(connection, statement)[0])

    def answer(self, connection: Connection, query: str) -> Any:
        """The one row that a query of the user answers, as JSON."""
        statement = sql.SQL("select to_jsonb(answer) from ({}) as answer limit 2").format(own_sql(query))
        with user_errors("verification.checksum_query"):
            rows = connection.execute(statement).fetchall()
        if len(rows) != 1:
            raise BackfillTargetError(
                f"verification.checksum_query answers {'no row' if not rows else 'more than one row'}, and one is "
                "needed. Nothing was changed"
            )
        return rows[0][0]

    def limit_lock_waits(self, connection: Connection) -> None:
        """In this transaction wait for no lock longer than the job says: who was there first goes first."""
        limit = f"{max(1, round(self.spec.processing.lock_seconds * 1000))}ms"
        connection.execute("select set_config('lock_timeout', %s, true)", (limit,))

    def _read(self, connection: Connection, span: sql.Composable, *, lock: bool) -> RowsRead:
        columns = [self.layout.column(name) for name in self.spec.update.columns]
        statement = sql.SQL("select {}, {}::text{} from {} where {} and ({}) order by {}{}").format(
            self._key_texts,
            sql.Identifier(self.spec.update.version),
            sql.SQL("").join(sql.SQL(", {}").format(readable(column)) for column in columns),
            self._table,
            span,
            self._filter,
            self._keys,
            sql.SQL(" for no key update" if lock else ""),
        )
        with user_errors(self._what):
            rows = connection.execute(statement).fetchall()
        width = len(self.cursor)
        return RowsRead(
            [tuple(row[:width]) for row in rows],
            [row[width] for row in rows],
            {column.name: [row[width + 1 + index] for row in rows] for index, column in enumerate(columns)},
        )

    def _span(self, stretch: Stretch) -> sql.Composed:
        until = sql.SQL("({}) <= ({})").format(self._keys, self._bounds(stretch.to))
        if stretch.after is None:
            return until
        return sql.SQL("({}) > ({}) and {}").format(self._keys, self._bounds(stretch.after), until)

    def _bounds(self, key: Sequence[str]) -> sql.Composed:
        return sql.SQL(", ").join(
            sql.SQL("{}::{}").format(sql.Literal(value), type_of(column))
            for value, column in zip(key, self.cursor, strict=True)
        )

    def _row(self, connection: Connection, statement: sql.SQL | sql.Composed) -> tuple[Any, ...]:
        with user_errors(self._what):
            row = connection.execute(statement).fetchone()
        assert row is not None
        return row
