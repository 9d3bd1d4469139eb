"""Bringing a database forward: once, in order, whole or not at all, and never by a program that is too old."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, LiteralString

import pytest
from psycopg import sql

from disarray.control import connections, files
from disarray.control.migrations import Migration, check_schema, known_migrations, migrate, schema_version
from disarray.errors import (
    AccessDeniedError,
    ControlError,
    MigrationChangedError,
    SchemaMissingError,
    SchemaTooNewError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.control.connections import Connection
    from tests.databases import Databases

pytestmark = pytest.mark.postgres

NEWEST = known_migrations()[-1].version


def later(statement: str, *, is_breaking: bool = False, version: int = NEWEST + 1) -> Migration:
    return Migration(version, "later", statement, is_breaking=is_breaking)


@pytest.fixture
def empty_dsn(databases: Databases) -> Iterator[str]:
    """The DSN of a database in which nothing was ever done."""
    name = databases.create()
    yield databases.dsn(name)
    databases.discard(name)


@pytest.fixture
def empty(empty_dsn: str) -> Iterator[Connection]:
    with connections.connect(empty_dsn) as connection:
        yield connection


def objects(connection: Connection) -> list[tuple[str, ...]]:
    return connection.execute(
        """
        select 'relation', relname::text from pg_class where relnamespace = to_regnamespace('disarray')
        union all
        select 'routine', oid::regprocedure::text from pg_proc where pronamespace = to_regnamespace('disarray')
        union all
        select 'type', typname::text from pg_type where typnamespace = to_regnamespace('disarray')
        order by 1, 2
        """
    ).fetchall()


def test_an_empty_database_is_brought_to_the_newest_schema_once(empty: Connection) -> None:
    assert schema_version(empty) is None
    with pytest.raises(SchemaMissingError, match="disarray db migrate"):
        check_schema(empty)
    with pytest.raises(SchemaMissingError, match="disarray db migrate"):
        files.enqueue_file(empty, "file:///a", "TOOL01")
    assert migrate(empty) == list(known_migrations())
    assert schema_version(empty) == NEWEST
    check_schema(empty)
    before = objects(empty)
    assert migrate(empty) == []
    assert objects(empty) == before


def test_what_is_missing_is_applied_in_order(connection: Connection) -> None:
    first = later("create table disarray.steps (step integer)")
    second = later("insert into disarray.steps values (2)", version=NEWEST + 2)
    assert migrate(connection, (*known_migrations(), first, second)) == [first, second]
    assert schema_version(connection) == NEWEST + 2
    with pytest.raises(SchemaMissingError, match=f"lacks migration {NEWEST + 3}"):
        check_schema(connection, (*known_migrations(), first, second, later("", version=NEWEST + 3)))


def test_a_changed_old_migration_is_refused(connection: Connection) -> None:
    changed = replace(known_migrations()[0], text=known_migrations()[0].text + "\n-- a harmless remark")
    for refuse in (migrate, check_schema):
        with pytest.raises(MigrationChangedError, match="Restore the file"):
            refuse(connection, (changed, *known_migrations()[1:]))


def test_an_old_program_refuses_a_newer_schema_that_breaks_it(connection: Connection) -> None:
    migrate(connection, (*known_migrations(), later("select 1", is_breaking=True)))
    for refuse in (migrate, check_schema):
        with pytest.raises(SchemaTooNewError, match="Install the newer disarray"):
            refuse(connection)


def test_an_old_program_works_beside_a_newer_schema_that_does_not_break_it_but_leaves_it_alone(
    connection: Connection,
) -> None:
    migrate(connection, (*known_migrations(), later("create table disarray.addition ()")))
    before = objects(connection)
    check_schema(connection)
    assert files.enqueue_file(connection, "file:///a", "TOOL01") is not None
    with pytest.raises(SchemaTooNewError, match="newer program"):
        migrate(connection)
    assert objects(connection) == before


def test_programs_that_migrate_at_the_same_time_end_with_one_result(empty_dsn: str) -> None:
    at_once = threading.Barrier(4)
    applied: list[list[Migration]] = []

    def run() -> None:
        with connections.connect(empty_dsn) as connection:
            at_once.wait(timeout=240)
            applied.append(migrate(connection))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    assert sorted(applied, key=len) == [[], [], [], list(known_migrations())]


def test_a_failing_migration_leaves_nothing_behind(empty: Connection) -> None:
    broken = later("create table disarray.half (); select 1 / 0")
    with pytest.raises(ControlError, match="division by zero"):
        migrate(empty, (*known_migrations(), broken))
    assert objects(empty) == []
    assert schema_version(empty) is None


def test_a_failing_migration_leaves_the_former_schema_working(connection: Connection) -> None:
    before = objects(connection)
    with pytest.raises(ControlError, match="division by zero"):
        migrate(
            connection, (*known_migrations(), later("drop table disarray.ingest_queue cascade; select 1 / 0"))
        )
    assert objects(connection) == before
    assert files.enqueue_file(connection, "file:///a", "TOOL01") is not None


def test_a_function_that_is_no_longer_in_the_files_disappears(connection: Connection) -> None:
    fresh = objects_after_migrating(connection)
    connection.execute(
        """
        create function disarray.forgotten() returns void language sql security definer as '';
        create function disarray.clock(p_zone text) returns timestamptz language sql as 'select now()';
        drop function disarray.enqueue_file(text, text, text, text, jsonb);
        create function disarray.enqueue_file(p_source_uri text) returns integer language sql as 'select 1';
        create aggregate disarray.old_sum (integer) (sfunc = int4pl, stype = integer);
        create procedure disarray.old_procedure() language sql as '';
        """
    )
    assert objects_after_migrating(connection) == fresh


def objects_after_migrating(connection: Connection) -> list[tuple[str, ...]]:
    migrate(connection)
    return objects(connection)


def test_functions_are_those_of_the_files_even_where_somebody_changed_one(connection: Connection) -> None:
    connection.execute(
        "create or replace function disarray.queue_status() returns jsonb language sql as $$select '{}'::jsonb$$"
    )
    migrate(connection)
    row = connection.execute("select disarray.queue_status() ? 'queue'").fetchone()
    assert row == (True,)


def test_every_migration_says_whether_it_breaks_older_programs_and_numbers_have_no_gap() -> None:
    versions = [migration.version for migration in known_migrations()]
    assert versions == list(range(1, len(versions) + 1))
    assert all(f"-- breaking: {'yes' if m.is_breaking else 'no'}\n" in m.text for m in known_migrations())


@pytest.mark.parametrize(
    "role", ["disarray_agent", "disarray_worker", "disarray_operator", "disarray_reader"]
)
def test_every_role_can_tell_whether_it_can_work_with_the_schema(
    connect_as: Callable[..., Connection], role: str
) -> None:
    session = connect_as(role)
    check_schema(session)
    assert schema_version(session) == NEWEST


OWN_ROLES = (
    "disarray_owner",
    "disarray_agent",
    "disarray_producer",
    "disarray_worker",
    "disarray_operator",
    "disarray_reader",
)


def become(connection: Connection, role: str) -> None:
    """Go on as another role, which may create schemas in this database."""
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("grant create on database {} to {}").format(database, sql.Identifier(role)))
    connection.execute(sql.SQL("set session authorization {}").format(sql.Identifier(role)))


def foreign_objects(connection: Connection) -> list[tuple[str, ...]]:
    return connection.execute(
        """
        select relname, relowner::regrole::text
        from pg_class
        where relnamespace = 'disarray'::regnamespace and relowner <> 'disarray_owner'::regrole
        """
    ).fetchall()


def test_a_role_that_may_create_roles_can_migrate_a_server_that_never_saw_disarray(
    empty: Connection, login_role: Callable[..., str]
) -> None:
    role = login_role(attributes="createrole")
    # Roles belong to the whole server: other names for the length of a transaction make it look like a new one.
    with empty.transaction(force_rollback=True):
        for own in OWN_ROLES:
            names = sql.Identifier(own), sql.Identifier(f"{own}_elsewhere")
            empty.execute(sql.SQL("alter role {} rename to {}").format(*names))
        become(empty, role)
        assert migrate(empty) == list(known_migrations())
        assert foreign_objects(empty) == []
        assert files.enqueue_file(empty, "file:///a", "TOOL01") is not None
        empty.execute(sql.SQL("set session authorization {}").format(sql.Identifier(role)))
        assert migrate(empty) == []


@pytest.mark.parametrize("attributes", ["inherit", "noinherit"])
def test_a_role_that_can_create_no_role_migrates_when_it_was_given_the_owner(
    empty: Connection, login_role: Callable[..., str], template_database: str, attributes: LiteralString
) -> None:
    become(empty, login_role("disarray_owner", attributes=attributes))
    assert migrate(empty) == list(known_migrations())
    assert foreign_objects(empty) == []
    assert migrate(empty) == []


def test_a_role_without_the_owner_is_refused_and_nothing_is_left_behind(
    empty: Connection, login_role: Callable[..., str], template_database: str
) -> None:
    become(empty, login_role())
    with pytest.raises(AccessDeniedError):
        migrate(empty)
    assert objects(empty) == []
