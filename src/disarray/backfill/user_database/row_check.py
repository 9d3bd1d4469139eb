"""What a transformed row holds, where that follows from the expressions of a job: asked of the server, once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from disarray.backfill.user_database.fragments import own_sql, type_of
from disarray.backfill.user_database.session import load_layout, user_errors
from disarray.control.connections import undone
from disarray.errors import BackfillTargetError

if TYPE_CHECKING:
    from disarray.backfill.description import UpdateSpec
    from disarray.backfill.table_layout import TableLayout
    from disarray.control.connections import Connection

_CHECKED = "disarray_checked"


def with_derived_check(connection: Connection, spec: UpdateSpec) -> UpdateSpec:
    """The description with the check that follows from its expressions; without one where none does.

    It follows where all rows are transformed, no expression reads what the job writes, and every expression gives the
    same again whenever it is asked. The server knows the last: it lets nothing else be a generated column. `random()`,
    `now()`, a look into another table would give another value when the row is verified, and a false alarm.
    """
    if spec.verification.check is not None:
        _refuse_changing(connection, spec, spec.verification.check)
        return spec
    expressions = spec.update.expressions
    if not expressions or spec.source.where or spec.reads_what_it_sets:
        return spec
    layout = load_layout(connection, spec.source.table)
    check = sql.SQL(" and ").join(
        # As the assignment converts it: a float8 that is stored as float4 is no longer the same.
        sql.SQL("({} is not distinct from ({})::{})").format(
            sql.Identifier(column), own_sql(expression), type_of(layout.column(column))
        )
        for column, expression in expressions.items()
        if column in {known.name for known in layout.columns}
    )
    text = check.as_string(connection)
    if _fault_of(connection, layout, text) is not None:
        return spec
    return replace(spec, verification=replace(spec.verification, derived_check=text))


def _refuse_changing(connection: Connection, spec: UpdateSpec, check: str) -> None:
    fault = _fault_of(connection, load_layout(connection, spec.source.table), check)
    if isinstance(fault, psycopg.errors.InvalidObjectDefinition):
        raise BackfillTargetError(
            f"verification.check of backfill '{spec.name}' calls a function that may answer otherwise each time (as "
            "random() and now() do): it proves nothing. Nothing was changed. Compare with columns and constants"
        )


def _fault_of(connection: Connection, layout: TableLayout, check: str) -> psycopg.Error | None:
    """Why a condition cannot be a generated column of such a table; None where it can, so that it never changes."""
    table = sql.Identifier("pg_temp", layout.table)
    with user_errors("verification.check"), undone(connection):
        try:
            with connection.transaction():
                connection.execute(
                    sql.SQL("create temporary table {} (like {})").format(
                        sql.Identifier(layout.table), sql.Identifier(layout.schema, layout.table)
                    )
                )
                connection.execute(
                    sql.SQL("alter table {} add column {} boolean generated always as ({}) stored").format(
                        table, sql.Identifier(_CHECKED), own_sql(check)
                    )
                )
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise
            return error
    return None
