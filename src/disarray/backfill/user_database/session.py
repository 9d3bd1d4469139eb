"""A session on the database of a user: its settings, its errors, layouts of tables, and the strain on its server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from disarray.backfill.table_layout import Column, TableLayout
from disarray.control.translation import BUSY_CODES, STATEMENT_TIMEOUT_CODE, translate
from disarray.errors import BackfillChunkError, BackfillTargetError, DatabaseUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection

# What texts of cursors and values depend on, whatever the server or the role has set.
SESSION = """
set datestyle = 'ISO, YMD';
set intervalstyle = 'postgres';
set timezone = 'UTC';
set bytea_output = 'hex';
set extra_float_digits = 1;
set default_transaction_isolation = 'read committed';
set jit = off
"""
_LAYOUT = """
select
    space.nspname,
    relation.relname,
    relation.relkind::text,
    current_setting('server_encoding'),
    has_table_privilege(relation.oid, 'select'),
    stored.row_count,
    stored.byte_count,
    relation.oid
from pg_class as relation
inner join pg_namespace as space on relation.relnamespace = space.oid
cross join lateral (
    select
        coalesce(sum(greatest(part.reltuples, 0)), 0)::bigint as row_count,
        coalesce(sum(pg_relation_size(part.oid)), 0)::bigint as byte_count
    from pg_class as part
    where
        part.relkind = 'r'
        and (part.oid = relation.oid or part.oid in (select tree.relid from pg_partition_tree(relation.oid) as tree))
) as stored
where relation.oid = to_regclass(%s)
"""
_COLUMNS = """
select
    attribute.attname,
    format_type(attribute.atttypid, attribute.atttypmod),
    kind.typname,
    not attribute.attnotnull,
    attribute.attgenerated <> '',
    has_column_privilege(attribute.attrelid, attribute.attnum, 'update')
from pg_attribute as attribute
inner join pg_type as kind on attribute.atttypid = kind.oid
where attribute.attrelid = %s and attribute.attnum > 0 and not attribute.attisdropped
order by attribute.attnum
"""
_UNIQUE_KEYS = """
select array(
    select attribute.attname::text
    from unnest(own.indkey::int2[]) with ordinality as key (attnum, place)
    inner join pg_attribute as attribute on attribute.attrelid = own.indrelid and attribute.attnum = key.attnum
    where key.place <= own.indnkeyatts
    order by key.place
)
from pg_index as own
where
    own.indrelid = %s and own.indisunique and own.indisvalid and own.indpred is null and own.indexprs is null
"""


@contextmanager
def user_errors(what: str) -> Iterator[None]:
    """Tell whose fault an error of the user's database is: the table's, the chunk's, or nobody's (busy, away)."""
    try:
        yield
    except psycopg.Error as error:
        code = error.sqlstate or ""
        message = error.diag.message_primary or str(error).strip()
        if code in BUSY_CODES or code == STATEMENT_TIMEOUT_CODE or code.startswith("25P"):
            raise translate(error) from error
        if code.startswith(("42", "3F", "0A")):
            raise BackfillTargetError(
                f"{what}: {message}. Nothing of this chunk was changed, and chunks that are done stay. Mend the table, "
                "its grants or the file of the job"
            ) from error
        translated = translate(error)
        if isinstance(translated, DatabaseUnavailableError):
            raise translated from error
        raise BackfillChunkError(f"{what}: {message} (SQLSTATE {code or 'none'})") from error


def prepare_session(connection: Connection) -> None:
    """Put in force what texts and checksums depend on."""
    with user_errors("the session"):
        connection.execute(SESSION.encode())


def defer_durability(connection: Connection) -> None:
    """Let commits of this session return before they are on disk, but for transactions that ask for it.

    What was cut or claimed and is lost with the server was never done either: it stands before the end of the chunk in
    the same log, so that whatever ended there is there as well. Not where the effect is in another database.
    """
    with user_errors("the session"):
        connection.execute("set synchronous_commit = off")


def make_durable(connection: Connection) -> None:
    """In this transaction, commit as the server, the database and the role say."""
    with user_errors("the session"):
        connection.execute("set local synchronous_commit to default")


def load_strain(connection: Connection) -> tuple[int, float | None]:
    """How many sessions wait for a lock on the user's server, and how far its slowest replica is behind, in seconds."""
    with user_errors("the state of the server"):
        row = connection.execute(
            """
            select
                (select count(distinct waiting.pid) from pg_locks as waiting where not waiting.granted),
                (select max(extract(epoch from replica.replay_lag))::float8 from pg_stat_replication as replica)
            """
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def load_layout(connection: Connection, table: str) -> TableLayout:
    """What a table looks like now."""
    with user_errors(f"table {table}"):
        found = connection.execute(_LAYOUT, (table,)).fetchone()
        if found is None or found[2] not in ("r", "p"):
            what = "there is no such table" if found is None else "it is no table"
            raise BackfillTargetError(f"{table}: {what} for this connection. Nothing was changed")
        schema, name, _, encoding, may_select, rows, size, oid = found
        columns = connection.execute(_COLUMNS, (oid,)).fetchall()
        keys = connection.execute(_UNIQUE_KEYS, (oid,)).fetchall()
    return TableLayout(
        schema=schema,
        table=name,
        columns=tuple(Column(*row[:5]) for row in columns),
        unique_keys=frozenset(tuple(key) for (key,) in keys),
        encoding=encoding,
        may_select=may_select,
        may_update=frozenset(row[0] for row in columns if row[5]),
        rows_estimated=rows,
        bytes=size,
    )
