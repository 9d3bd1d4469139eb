"""Marks in the database of a user: which chunks were written, where that is not the database of disarray."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from psycopg import sql

from disarray.backfill.user_database.session import user_errors
from disarray.errors import BackfillTargetError

if TYPE_CHECKING:
    from uuid import UUID

    from disarray.control.connections import Connection

MARKS = "disarray_backfill_chunk"


class Marks:
    """Which chunks were written, kept in the user's own database where that is not the one of disarray."""

    def __init__(self, schema: str, job_key: UUID) -> None:
        self._table = sql.Identifier(schema, MARKS)
        self._name = f"{schema}.{MARKS}"
        self._job_key = job_key

    def prepare(self, connection: Connection, *, create: bool) -> None:
        """Make sure that the table is there; it is created only with the operator's consent."""
        with user_errors(self._name):
            row = connection.execute(
                sql.SQL("select to_regclass({})").format(sql.Literal(self._table.as_string(connection)))
            ).fetchone()
            if row is not None and row[0] is not None:
                return
            if not create:
                raise BackfillTargetError(
                    f"the table of marks {self._name} is not there: in a database that is not disarray's own it says "
                    "which chunks were written. Write create = true under [update], or create it as docs/backfill.md "
                    "shows. Nothing was changed"
                )
            connection.execute(
                sql.SQL(
                    "create table if not exists {} (job_key uuid, chunk_no bigint, result jsonb, "
                    "written_at timestamptz not null default now(), primary key (job_key, chunk_no))"
                ).format(self._table)
            )

    def begin(self, connection: Connection, chunk_no: int) -> dict[str, Any] | None:
        """Mark a chunk in its transaction; what it did, where it was written before."""
        with user_errors(self._name):
            inserted = connection.execute(
                sql.SQL("insert into {} (job_key, chunk_no) values ({}, {}) on conflict do nothing").format(
                    self._table, sql.Literal(self._job_key), sql.Literal(chunk_no)
                )
            ).rowcount
            if inserted:
                return None
            row = connection.execute(
                sql.SQL("select result from {} where {}").format(self._table, self._is_of(chunk_no))
            ).fetchone()
        assert row is not None
        return cast("dict[str, Any]", row[0])

    def end(self, connection: Connection, chunk_no: int, result: dict[str, Any]) -> None:
        """Note what a chunk did, in its transaction."""
        with user_errors(self._name):
            connection.execute(
                sql.SQL("update {} set result = {}::jsonb where {}").format(
                    self._table, sql.Literal(json.dumps(result)), self._is_of(chunk_no)
                )
            )

    def _is_of(self, chunk_no: int) -> sql.Composed:
        return sql.SQL("job_key = {} and chunk_no = {}").format(
            sql.Literal(self._job_key), sql.Literal(chunk_no)
        )
