"""The functions of a database are those of the program that uses it, and what users built beside them stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from psycopg import sql

from disarray import __version__
from disarray.broker.direct import DirectTransport
from disarray.broker.transport import Announcement
from disarray.control import connections, migrations, routines
from disarray.control.migrations import check_schema, migrate, prepare_schema
from disarray.control.routines import routine_names
from disarray.errors import (
    FunctionsDifferError,
    ObjectInTheWayError,
    SchemaTooNewError,
    TransportUnavailableError,
)
from disarray.model.notification import Notification

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres


def install_other_functions(connection: Connection, *, program_version: str = __version__) -> None:
    """As a program left them that differs in a function and in nothing else."""
    with connection.transaction():
        connection.execute("set local role disarray_owner")
        connection.execute(
            "create or replace function disarray.queue_status() returns jsonb language sql as $$select '{}'::jsonb$$"
        )
        connection.execute(
            sql.SQL(
                """
                create or replace function disarray.function_release()
                returns table (functions_hash text, program_version text, telemetry_routines text[])
                language sql as $$select 'another', {}, '{{}}'::text[]$$
                """
            ).format(sql.Literal(program_version))
        )


def has_our_functions(connection: Connection) -> bool:
    row = connection.execute("select disarray.queue_status() ? 'queue'").fetchone()
    return row == (True,)


def rows_of(connection: Connection, statement: str) -> list[tuple[object, ...]]:
    return connection.execute(statement.encode()).fetchall()


@pytest.mark.parametrize("program_version", ["0.0.9", __version__])
def test_functions_of_another_program_are_replaced_where_the_role_may(
    connection: Connection, program_version: str
) -> None:
    install_other_functions(connection, program_version=program_version)
    with pytest.raises(FunctionsDifferError, match="disarray db migrate"):
        check_schema(connection)
    prepare_schema(connection)
    check_schema(connection)
    assert has_our_functions(connection)


def test_a_database_from_before_programs_wrote_down_their_functions_gets_ours(connection: Connection) -> None:
    connection.execute("drop function disarray.function_release()")
    prepare_schema(connection)
    check_schema(connection)


@pytest.mark.parametrize(
    "role", ["disarray_agent", "disarray_worker", "disarray_operator", "disarray_reader"]
)
def test_functions_of_another_program_are_refused_where_the_role_may_not_replace_them(
    connection: Connection, connect_as: Callable[..., Connection], role: str
) -> None:
    session = connect_as(role)
    prepare_schema(session)
    install_other_functions(connection)
    connection.execute("grant execute on function disarray.function_release() to public")
    with pytest.raises(FunctionsDifferError, match="disarray db migrate"):
        prepare_schema(session)
    assert not has_our_functions(connection)


def test_an_agent_without_a_broker_keeps_what_it_sees_until_the_functions_are_those_of_its_program(
    dsn: str, connection: Connection, login_role: Callable[..., str]
) -> None:
    login_role_name = login_role("disarray_agent")
    install_other_functions(connection)
    announced = [Announcement("1", Notification("file:///a", "TOOL01"))]
    with connections.open_pool(dsn, max_size=1) as pool:
        with pool.connection() as pooled:
            pooled.execute(sql.SQL("set session authorization {}").format(sql.Identifier(login_role_name)))
        transport = DirectTransport(pool)
        with pytest.raises(TransportUnavailableError, match=r"disarray db migrate.* kept and sent again"):
            transport.publish(announced)
        migrate(connection)
        assert transport.publish(announced).delivered == {"1"}


def test_an_older_program_works_beside_the_functions_of_a_newer_one_and_leaves_them(
    connection: Connection,
) -> None:
    install_other_functions(connection, program_version="99.0.0")
    prepare_schema(connection)
    assert not has_our_functions(connection)


def test_an_older_program_does_not_migrate_over_the_functions_of_a_newer_one(connection: Connection) -> None:
    install_other_functions(connection, program_version="99.0.0")
    with pytest.raises(SchemaTooNewError, match=r"functions of disarray 99\.0\.0.*Nothing was changed"):
        migrate(connection)
    assert not has_our_functions(connection)


def test_an_advisory_lock_of_a_reader_stops_no_upgrade(
    connection: Connection, connect: Callable[[], Connection]
) -> None:
    install_other_functions(connection)
    reader = connect()
    reader.execute("set role disarray_reader")
    reader.execute("select pg_advisory_lock(%s)", (migrations.ADVISORY_LOCK,))
    prepare_schema(connection)
    assert has_our_functions(connection)
    migrate(connection)


def test_programs_that_find_other_functions_at_the_same_time_replace_them_once(
    connection: Connection, connect: Callable[[], Connection]
) -> None:
    install_other_functions(connection)
    second = connect()
    with connection.transaction():
        prepare_schema(connection)
        held = migrations.read_schema(second)
    assert held.has_other_functions
    prepare_schema(second)
    assert has_our_functions(second)


def test_what_users_keep_in_the_schema_telemetry_stays(connection: Connection) -> None:
    connection.execute(
        """
        create function telemetry.celsius(p_kelvin float8) returns float8 language sql as 'select p_kelvin - 273.15';
        create function telemetry.junction_int(p_own text) returns text language sql as 'select p_own';
        grant usage on schema telemetry to disarray_reader;
        """
    )
    migrate(connection)
    assert rows_of(connection, "select telemetry.celsius(273.15), telemetry.junction_int('mine'::text)") == [
        (0.0, "mine")
    ]
    assert rows_of(
        connection, "select has_function_privilege('public', 'telemetry.celsius(float8)', 'execute')"
    ) == [(True,)]


def test_views_of_users_over_our_functions_stay_and_show_the_new_ones(connection: Connection) -> None:
    connection.execute(
        """
        create view public.files_seen as select source_uri from disarray.list_files();
        create view public.steps as select telemetry.junction_int('increase', 1, 2, 3, 5) as step;
        """
    )
    migrate(connection)
    install_other_functions(connection)
    prepare_schema(connection)
    assert rows_of(connection, "select step from public.steps") == [(3,)]
    assert rows_of(connection, "select * from public.files_seen") == []


def test_a_view_over_a_function_that_must_go_is_named_and_nothing_changed(connection: Connection) -> None:
    connection.execute(
        """
        set role disarray_owner;
        create function disarray.former() returns integer language sql as 'select 1';
        reset role;
        create view public.mine as select disarray.former() as one;
        """
    )
    install_other_functions(connection)
    with pytest.raises(
        ObjectInTheWayError, match=r"view public.mine depends on function disarray.former\(\).*Nothing was"
    ):
        migrate(connection)
    assert not has_our_functions(connection)
    assert rows_of(connection, "select one from public.mine") == [(1,)]
    connection.execute("drop view public.mine")
    migrate(connection)
    assert has_our_functions(connection)


def test_a_view_over_a_table_that_a_migration_changes_is_named(connection: Connection) -> None:
    connection.execute("create view public.mine as select source_uri from disarray.ingest_queue")
    newest = migrations.known_migrations()[-1].version
    for statement in (
        "alter table disarray.ingest_queue drop column source_uri",
        "alter table disarray.ingest_queue alter column source_uri type varchar",
    ):
        later = migrations.Migration(newest + 1, "later", statement, is_breaking=False)
        with pytest.raises(ObjectInTheWayError, match=r"view public\.mine depends on"):
            migrate(connection, (*migrations.known_migrations(), later))


@pytest.mark.parametrize(
    "former",
    [
        pytest.param("() returns integer language sql as 'select 1'", id="another result"),
        pytest.param(
            "(p_zone text) returns jsonb language sql as $$select '{}'::jsonb$$", id="more arguments"
        ),
    ],
)
def test_a_function_whose_shape_changed_is_made_anew(connection: Connection, former: str) -> None:
    connection.execute("drop function disarray.queue_status()")
    connection.execute("set role disarray_owner")
    connection.execute(f"create function disarray.queue_status{former}".encode())
    connection.execute("reset role")
    migrate(connection)
    assert has_our_functions(connection)
    assert rows_of(connection, "select count(*) from pg_proc where proname = 'queue_status'") == [(1,)]


def test_a_former_function_of_ours_in_the_schema_telemetry_goes(connection: Connection) -> None:
    install_other_functions(connection)
    connection.execute(
        """
        set role disarray_owner;
        create function telemetry.former() returns integer language sql as 'select 1';
        create or replace function disarray.function_release()
        returns table (functions_hash text, program_version text, telemetry_routines text[])
        language sql as $$select 'another', '0.0.1', '{former}'::text[]$$;
        reset role;
        create function telemetry.not_former() returns integer language sql as 'select 1';
        """
    )
    prepare_schema(connection)
    assert rows_of(
        connection, "select to_regproc('telemetry.former'), to_regproc('telemetry.not_former')"
    ) == [(None, "telemetry.not_former")]


def test_a_grant_that_a_program_no_longer_makes_is_taken_back_and_one_of_a_user_stays(
    connection: Connection, login_role: Callable[..., str]
) -> None:
    name = login_role()
    connection.execute("grant execute on function disarray.blacklist_file to disarray_agent")
    connection.execute(
        sql.SQL("grant execute on function disarray.list_files to {}").format(sql.Identifier(name))
    )
    migrate(connection)
    assert connection.execute(
        """
        select
            has_function_privilege('disarray_agent', 'disarray.blacklist_file'::regproc, 'execute'),
            has_function_privilege(%s, 'disarray.list_files'::regproc, 'execute')
        """,
        (name,),
    ).fetchone() == (False, True)


def test_no_name_is_used_twice_and_every_function_is_known_by_its_name(connection: Connection) -> None:
    migrate(connection)
    for schema in ("disarray", "telemetry"):
        names = routine_names(schema)
        assert len(set(names)) == len(names)
        live = connection.execute(
            "select proname from pg_proc where pronamespace = to_regnamespace(%s) order by 1", (schema,)
        ).fetchall()
        assert sorted({*names, *(["function_release"] if schema == "disarray" else [])}) == [
            n for (n,) in live
        ]


def test_what_was_left_beside_the_functions_is_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "functions"
    folder.mkdir()
    (folder / "value.sql").write_text("create function disarray.value()")
    (folder / "value.sql.orig").write_text("create function disarray.former_value()")
    monkeypatch.setattr(routines, "SQL_FOLDER", tmp_path)
    assert [file.name for file in routines._function_files.__wrapped__()] == ["value.sql"]
