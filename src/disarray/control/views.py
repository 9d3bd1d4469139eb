"""Materialized views: made, refreshed and dropped, and how far each has come.

What a user's query says is run as the role `disarray_views`, which may read what readers read and no more, and owns
every view: so a view can be dropped or replaced only if it was made here. No function of the database can change its
role, and so the statements are composed here.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from disarray.control.calls import call, fetch_records, fetch_value, find_record, find_value
from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder

OWNER = "disarray_views"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRecord:
    """A view as it was applied, and where it stands."""

    name: str
    schema_name: str
    definition: str
    unique_key: Sequence[str]
    depends_on: Sequence[str]
    at_most_every: timedelta
    timeout_seconds: int
    applied_at: datetime
    applied_by: str
    refreshed_at: datetime | None
    commit_position: int | None
    is_stale: bool
    lag_commits: int
    lag_seconds: float
    due_at: datetime
    failure_count: int
    last_error: str | None
    last_error_at: datetime | None
    held_by: str | None


@dataclass(frozen=True, slots=True)
class ViewRefresh:
    """One refresh of a view; with an error, the view stayed as it was."""

    refresh_id: int
    refreshed_at: datetime
    commit_position: int | None
    seconds: float
    error: str | None


@dataclass(frozen=True, slots=True)
class ViewTurn:
    """The turn to refresh a view."""

    name: str
    schema_name: str
    timeout_seconds: int
    fence: int


@dataclass(frozen=True, slots=True)
class Relation:
    """What has a name in the database: its kind as `pg_class` has it, its owner, and whether it can be refreshed."""

    kind: str
    owner: str
    has_unique_index: bool
    is_populated: bool


def put_view(
    connection: Connection,
    name: str,
    *,
    schema_name: str,
    definition: str,
    unique_key: Sequence[str],
    depends_on: Sequence[str],
    at_most_every: timedelta,
    timeout_seconds: int,
    by: str,
    is_built: bool,
) -> None:
    """Write down what a view is made of, before it is built and in the same transaction."""
    call(
        connection,
        "select disarray.put_view(%s, %s, %s, %s::text[], %s::text[], %s, %s, %s, %s)",
        (
            name,
            schema_name,
            definition,
            list(unique_key),
            list(depends_on),
            at_most_every,
            timeout_seconds,
            by,
            is_built,
        ),
    )


def drop_view(connection: Connection, name: str) -> bool:
    """Forget a view, in the transaction that drops it; whether it was known."""
    return fetch_value(connection, bool, "select disarray.drop_view(%s)", (name,))


def claim_view(connection: Connection, holder: Holder) -> ViewTurn | None:
    """Take the turn to refresh a view that is due and stale; None where there is none."""
    return find_record(
        connection,
        ViewTurn,
        "select * from disarray.claim_view(%s, %s)",
        (holder.instance_name, holder.incarnation),
    )


def begin_view_refresh(connection: Connection, turn: ViewTurn, holder: Holder) -> int:
    """In the transaction of a refresh and before it: the position that the view will have at least."""
    return fetch_value(
        connection,
        int,
        "select disarray.begin_view_refresh(%s, %s, %s, %s)",
        (turn.name, holder.instance_name, holder.incarnation, turn.fence),
    )


def end_view_refresh(
    connection: Connection,
    turn: ViewTurn,
    holder: Holder,
    *,
    seconds: float,
    position: int | None = None,
    error: str | None = None,
) -> None:
    """Log a refresh and give the turn back: in its transaction, or with an error in another."""
    call(
        connection,
        "select disarray.end_view_refresh(%s, %s, %s, %s, %s, %s, %s)",
        (turn.name, holder.instance_name, holder.incarnation, turn.fence, seconds, position, error),
    )


def list_views(connection: Connection) -> list[ViewRecord]:
    """The views that were applied, by name."""
    return fetch_records(connection, ViewRecord, "select * from disarray.list_views()")


def list_view_refreshes(
    connection: Connection, name: str, *, limit: int = 20, after: Sequence[str] | None = None
) -> list[ViewRefresh]:
    """The last refreshes of a view, newest first."""
    return fetch_records(
        connection,
        ViewRefresh,
        "select * from disarray.list_view_refreshes(%s, %s, %s::text[])",
        (name, limit, after),
    )


def find_relation(connection: Connection, schema_name: str, name: str) -> Relation | None:
    """What there is under a name, whoever made it."""
    return find_record(
        connection,
        Relation,
        """
        select
            found.relkind::text as kind,
            pg_catalog.pg_get_userbyid(found.relowner)::text as owner,
            exists (
                select
                from pg_catalog.pg_index as index
                where
                    index.indrelid = found.oid
                    and index.indisunique
                    and index.indisvalid
                    and index.indpred is null
                    and index.indexprs is null
            ) as has_unique_index,
            found.relispopulated as is_populated
        from pg_catalog.pg_class as found
        inner join pg_catalog.pg_namespace as home on found.relnamespace = home.oid
        where
            home.nspname = %s
            and found.relname = %s
        """,
        (schema_name, name),
    )


def limit_statements(connection: Connection, seconds: int) -> None:
    """Let the statements of the open transaction take so long each."""
    find_value(
        connection,
        str,
        "select pg_catalog.set_config('statement_timeout', %s, true)",
        (f"{seconds}s",),
    )


def describe_query(connection: Connection, query: str) -> list[str]:
    """The columns of a query, which is planned and not run; refused where it is no single query."""
    statement = sql.SQL("select * from ({}\n) as described limit 0").format(_as_written(query))
    with translated_errors(), _as_owner(connection):
        # Prepared: the server takes one statement then, and not "…) as x; drop …".
        described = connection.execute(statement, prepare=True).description or []
    return [column.name for column in described]


def build_view(
    connection: Connection, schema_name: str, name: str, *, query: str, unique_key: Sequence[str], index: str
) -> None:
    """Create a view with its data and its unique index, inside the caller's transaction."""
    relation = sql.Identifier(schema_name, name)
    with translated_errors(), _as_owner(connection):
        connection.execute(
            sql.SQL("create materialized view {} as\n{}\nwith data").format(relation, _as_written(query)),
            prepare=True,
        )
        connection.execute(
            sql.SQL("create unique index {} on {} ({})").format(
                sql.Identifier(index), relation, sql.SQL(", ").join(map(sql.Identifier, unique_key))
            )
        )
        connection.execute(
            sql.SQL("comment on materialized view {} is 'Made by disarray view apply.'").format(relation)
        )
        connection.execute(
            sql.SQL("grant select on {} to disarray_reader, disarray_operator, disarray_worker").format(
                relation
            )
        )


@contextmanager
def creation_granted(connection: Connection) -> Iterator[None]:
    """Within the caller's transaction the owner of views may create them; outside of it nobody who becomes it can."""
    call(connection, "select disarray.grant_view_creation()", ())
    yield
    call(connection, "select disarray.revoke_view_creation()", ())


def rename_view(connection: Connection, schema_name: str, name: str, new_name: str) -> None:
    """Give a view its name, inside the caller's transaction."""
    statement = sql.SQL("alter materialized view {} rename to {}").format(
        sql.Identifier(schema_name, name), sql.Identifier(new_name)
    )
    with translated_errors(), _as_owner(connection):
        connection.execute(statement)


def remove_view(connection: Connection, schema_name: str, name: str) -> None:
    """Drop a view of ours, and nothing that depends on it, inside the caller's transaction."""
    statement = sql.SQL("drop materialized view {}").format(sql.Identifier(schema_name, name))
    with translated_errors(), _as_owner(connection):
        connection.execute(statement)


def refresh_view(connection: Connection, turn: ViewTurn, *, is_populated: bool) -> None:
    """Fill a view anew, inside the caller's transaction; while others read it, unless it never was filled."""
    statement = sql.SQL("refresh materialized view {} {}").format(
        sql.SQL("concurrently" if is_populated else ""), sql.Identifier(turn.schema_name, turn.name)
    )
    with translated_errors(), _as_owner(connection):
        connection.execute(statement)


def _as_written(query: str) -> sql.SQL:
    return sql.SQL(query)  # the user's own text, and his own rights


@contextmanager
def _as_owner(connection: Connection) -> Iterator[None]:
    connection.execute(sql.SQL("set local role {}").format(sql.Identifier(OWNER)))
    # Of the file's names, those without a schema are ours.
    connection.execute("set local search_path = telemetry, pg_temp")
    yield
    # After an error the transaction is over, and with it what was set.
    connection.execute("set local role none")
    connection.execute("set local search_path to default")
