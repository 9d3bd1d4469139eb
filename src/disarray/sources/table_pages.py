"""A table read in the order of its cursor and key, a page at a time: bounded, and never twice through the same row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.errors import SourceKeyError, SourceLayoutError
from disarray.sources.table_columns import SQLITE, literal, relation_of
from disarray.sources.table_session import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.model.description.table_source import TableSource
    from disarray.sources.table_columns import TableColumn, TableLayout
    from disarray.sources.table_session import TableSession
    from disarray.sources.watermark import Position, Value

PAGE_ROWS = 20_000
# Until it is known how wide rows are, few are asked for; then as many as fit into so many bytes.
_FIRST_ROWS = 1_000
_PAGE_BYTES = 16 << 20
# Rows that were taken before are passed over in pages of this size at least, however small the limit.
_FEWEST_ROWS = 100
# What a page has beside the columns of the table.
TRANSACTION = "__transaction"
BEYOND = "__beyond"


@dataclass(frozen=True, slots=True)
class PagedTable:
    """A table inside of one view of its data, in the order of its cursor and key."""

    session: TableSession
    source: TableSource
    layout: TableLayout
    has_transactions: bool  # whether rows tell who wrote them
    is_by_key: bool = False  # in the order of the key alone

    @property
    def page_rows(self) -> int:
        """How many rows are asked for at a time, if they are narrow."""
        return min(PAGE_ROWS, max(self.source.limit, _FEWEST_ROWS))

    @property
    def order(self) -> tuple[TableColumn, ...]:
        """The columns by which it is read; together they tell any two rows apart."""
        cursor = (self.source.cursor,) if self.source.cursor and not self.is_by_key else ()
        names = dict.fromkeys((*cursor, *self.source.key))
        return tuple(self.layout.column(name) for name in names)

    def statement(
        self, after: Position | None, up_to: Position | None, *, condition: str = "", rows: int
    ) -> str:
        """The rows behind one position and up to another, so many at most."""
        selected = [f"{column.expression} as {column.quoted}" for column in self.layout.columns]
        beyond = [column.beyond for column in self.layout.columns if column.beyond]
        if beyond:
            selected.append(f"({' or '.join(beyond)}) as {BEYOND}")
        if self.has_transactions:
            selected.append(f"xmin::text::int8 as {TRANSACTION}")
        conditions = [
            *self._bounds(after, ">"),
            *self._bounds(up_to, "<="),
            *([condition] if condition else []),
        ]
        where = f" where {' and '.join(conditions)}" if conditions else ""
        # By the columns of the table: bare names would be those of what is selected, which are sorted as other types
        # (numbers as text) and by no index.
        order = ", ".join(f"extracted.{column.quoted}" for column in self.order)
        relation = relation_of(self.source)
        if self.source.table is not None:
            relation = f"{relation} as extracted"
        return f"select {', '.join(selected)} from {relation}{where} order by {order} limit {rows}"  # noqa: S608

    def pages(
        self, after: Position | None, up_to: Position | None, *, condition: str = ""
    ) -> Iterator[tuple[pa.Table, bool]]:
        """Page after page, each of some megabytes at most, and whether it is the last."""
        rows = min(self.page_rows, _FIRST_ROWS)
        while True:
            # One row more, to know whether there are any and whether the key tells it from the last.
            statement = self.statement(after, up_to, condition=condition, rows=rows + 1)
            page = self._plain(self.session.rows(statement, most_rows=rows + 1))
            self._refuse_equal_keys(page)
            is_last = page.num_rows <= rows
            width = max(1, page.nbytes // max(1, page.num_rows))
            page = page.slice(0, rows)
            yield page, is_last
            if is_last:
                return
            after = self.position(page, page.num_rows - 1)
            rows = max(1, min(self.page_rows, _PAGE_BYTES // width))

    def end_of(self, after: Position | None, up_to: Position, *, rows: int) -> Position | None:
        """Where the next rows behind a position end, so many at most; None where there is none."""
        names = ", ".join(column.quoted for column in self.order)
        conditions = " and ".join([*self._bounds(after, ">"), *self._bounds(up_to, "<=")])
        inner = (
            f"select {names} from {relation_of(self.source)} where {conditions} "  # noqa: S608 - names are quoted
            f"order by {names} limit {rows}"
        )
        selected = ", ".join(f"{column.expression} as {column.quoted}" for column in self.order)
        backwards = ", ".join(f"cut.{column.quoted} desc" for column in self.order)
        found = self.session.rows(
            f"select {selected} from ({inner}) as cut order by {backwards} limit 1"  # noqa: S608
        )
        return self.position(found, 0) if found.num_rows else None

    def count(self, after: Position | None, up_to: Position | None, *, condition: str = "") -> int:
        """How many rows there are behind one position and up to another, as the database counts them."""
        conditions = [
            *self._bounds(after, ">"),
            *self._bounds(up_to, "<="),
            *([condition] if condition else []),
        ]
        where = f" where {' and '.join(conditions)}" if conditions else ""
        found = self.session.rows(
            f"select count(*) as rows from {relation_of(self.source)}{where}"  # noqa: S608 - names are quoted
        )
        return int(found.column("rows")[0].as_py())

    def last_position(self) -> Position | None:
        """The last in the order; None where there is no row."""
        selected = ", ".join(f"{column.expression} as {column.quoted}" for column in self.order)
        backwards = ", ".join(f"extracted.{column.quoted} desc" for column in self.order)
        found = self.session.rows(
            f"select {selected} from {relation_of(self.source)} as extracted order by {backwards} limit 1"  # noqa: S608
        )
        return self.position(found, 0) if found.num_rows else None

    def position(self, page: pa.Table, row: int) -> Position:
        """Where a row stands."""
        return tuple(value_of(page.column(column.name)[row]) for column in self.order)

    def refuse_missing_keys(self) -> None:
        """Refuse a table in which a row has no cursor or no part of its key: it would never be in any page."""
        nullable = self._nullable()
        # A time that cannot be read has no place either.
        unreadable = [column.beyond for column in self.order if column.beyond]
        tests = [*(f"{column.quoted} is null" for column in nullable), *unreadable]
        if not tests:
            return
        found = self.session.rows(
            f"select 1 as found from {relation_of(self.source)} where {' or '.join(tests)} limit 1"  # noqa: S608
        )
        if found.num_rows:
            names = ", ".join(column.name for column in self.order if column in nullable or column.beyond)
            raise SourceKeyError.of(
                self.source.name,
                f"a row has NULL, or a time before year 1 or after 9999, in its cursor or key ({names}), so it has no "
                "place in the order",
            )

    def _nullable(self) -> list[TableColumn]:
        if self.session.server is not Server.POSTGRESQL or self.source.table is None:
            return list(self.order)
        found = self.session.rows(
            "select attname::text as name from pg_attribute where attnotnull and attrelid = "  # noqa: S608
            f"{literal(relation_of(self.source))}::regclass"
        )
        never = set(found.column("name").to_pylist())
        return [column for column in self.order if column.name not in never]

    def _bounds(self, position: Position | None, comparison: str) -> list[str]:
        if position is None:
            return []
        columns = [column.quoted for column in self.order[: len(position)]]
        values = [self._literal(value) for value in position]
        if len(columns) == 1:
            return [f"{columns[0]} {comparison} {values[0]}"]
        # The first column alone as well: an index on it serves where there is none on all of them.
        return [
            f"{columns[0]} {comparison[0]}= {values[0]}",
            f"({', '.join(columns)}) {comparison} ({', '.join(values)})",
        ]

    def _literal(self, value: Value) -> str:
        if self.session.server is Server.SQLITE and not isinstance(value, str):
            return repr(value)
        return literal(str(value))

    def _plain(self, page: pa.Table) -> pa.Table:
        """SQLite tells types by what it finds: what is no number, text or nothing is refused by name."""
        for index, column in enumerate(self.layout.columns):
            kind = page.schema.field(column.name).type
            if column.type_name == SQLITE and not (
                pa.types.is_integer(kind)
                or pa.types.is_floating(kind)
                or pa.types.is_string(kind)
                or pa.types.is_null(kind)
            ):
                raise SourceLayoutError.of(
                    self.source.name,
                    f"column {column.name} holds values of type {kind}, which is no type of a reading",
                )
            if pa.types.is_null(kind):
                page = page.set_column(index, column.name, page.column(column.name).cast(pa.string()))
        return page

    def _refuse_equal_keys(self, page: pa.Table) -> None:
        if page.num_rows < 2:
            return
        equal = np.ones(page.num_rows - 1, dtype=bool)
        for column in self.order:
            values = page.column(column.name)
            same = pc.equal(values.slice(1), values.slice(0, page.num_rows - 1)).fill_null(False)
            equal &= same.to_numpy(zero_copy_only=False)
        if equal.any():
            row = int(np.flatnonzero(equal)[0])
            raise SourceKeyError.of(
                self.source.name, f"two rows have the same {self.shown_position(page, row)}"
            )

    def shown_position(self, page: pa.Table, row: int) -> str:
        """Cursor and key of a row, for people."""
        return ", ".join(f"{column.name} = {page.column(column.name)[row].as_py()}" for column in self.order)


def value_of(scalar: pa.Scalar[Any]) -> Value:
    """A value as it is kept in a position."""
    value = scalar.as_py()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bool):
        return "true" if value else "false"
    assert isinstance(value, str | int | float), "rows without a place in the order were refused"
    return value
