"""Connections that do not keep others waiting, a pool that survives lost ones, and what is tried again."""

from __future__ import annotations

import re
import threading
import traceback
from typing import TYPE_CHECKING

import psycopg
import pytest

from disarray.control import claim_ends, connections, files, queue
from disarray.control.connections import SessionLimits
from disarray.control.inspection import inspect_server
from disarray.control.queue import Holder, Incarnation, QueueId
from disarray.control.retries import call_idempotent
from disarray.control.routines import SQL_FOLDER
from disarray.control.translation import ACCESS_CODES, OWN_CODES, translated_errors
from disarray.errors import (
    ConfigError,
    ControlError,
    DatabaseBusyError,
    DatabaseUnavailableError,
    DatabaseUnreachableError,
    InvalidRequestError,
    LeaseLostError,
    TimeLimitError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.control.connections import Connection, Pool

pytestmark = pytest.mark.postgres


@pytest.fixture
def pool(dsn: str) -> Iterator[Pool]:
    with connections.open_pool(dsn, application_name="pool under test", max_size=2) as opened:
        yield opened


@pytest.fixture
def two_rows(connection: Connection) -> Connection:
    """A table `pair` with the rows 1 and 2, for two sessions to fight over."""
    connection.execute("create table pair (id integer primary key, visits integer not null default 0)")
    connection.execute("insert into pair values (1), (2)")
    return connection


def cut_pooled_connections(connection: Connection) -> int:
    rows = connection.execute(
        """
        select pg_terminate_backend(pid, 5000)
        from pg_stat_activity
        where datname = current_database() and application_name = 'pool under test'
        """
    ).fetchall()
    return len(rows)


def visits(connection: Connection) -> list[int]:
    return [count for (count,) in connection.execute("select visits from pair order by id")]


def test_a_pool_whose_connections_were_all_cut_costs_nobody_a_call(
    connection: Connection, pool: Pool
) -> None:
    with pool.connection() as first, pool.connection() as second:
        first.execute("select 1")
        second.execute("select 1")
    assert cut_pooled_connections(connection) == 2
    for _ in range(3):
        with pool.connection() as again:
            assert files.enqueue_file(again, "file:///a", "TOOL01") is not None


def test_a_pool_without_a_server_says_that_the_database_does_not_answer(dsn: str) -> None:
    nowhere = psycopg.conninfo.make_conninfo(dsn, host="127.0.0.1", port=1)
    with pytest.raises(DatabaseUnavailableError, match="disarray doctor"):
        connections.connect(nowhere)
    with connections.open_pool(nowhere) as pool:
        pool.timeout = 0.2
        with pytest.raises(DatabaseUnavailableError, match="disarray doctor"), pool.connection():
            pass


def test_a_commit_whose_answer_is_lost_says_that_the_database_does_not_answer(
    connection: Connection, pool: Pool
) -> None:
    def commit() -> None:
        with pool.connection() as cut, connections.transaction(cut):
            cut.execute("create table unsure ()")
            cut_pooled_connections(connection)

    with pytest.raises(DatabaseUnavailableError):
        commit()


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://alice:s3cret@db/the lab",
        " postgresql://alice:s3cret@db/lab",
        "host=db s3cret",
        "postgresql://alice:a@s3cret@db/lab",
        "postgresql://alice:a@s3cret:5432@db/lab",
        "postgresql://alice:%s3cret@db/lab",
    ],
)
def test_a_dsn_that_cannot_be_read_is_refused_and_not_printed(dsn: str) -> None:
    for use in (connections.connect, connections.open_pool, inspect_server):
        with pytest.raises((ConfigError, DatabaseUnreachableError), match="may hold a password") as refused:
            use(dsn)
        printed = "".join(traceback.format_exception(refused.value))
        assert "s3cret" not in printed.replace(repr(dsn), "")


def test_a_password_with_a_slash_is_refused_and_no_part_of_it_is_printed() -> None:
    with pytest.raises(ConfigError, match="%2F") as refused:
        connections.connect("postgresql://app:s3cr/et@127.0.0.1:5432/db")
    assert "s3cr" not in str(refused.value)


def test_a_limit_that_one_statement_meets_is_no_outage(dsn: str) -> None:
    with connections.connect(dsn) as connection:
        connection.execute("set temp_file_limit = '1MB'")
        connection.execute("set work_mem = '64kB'")
        with pytest.raises(ControlError, match="53400") as refused, translated_errors():
            connection.execute(
                "select count(*) from (select n from generate_series(1, 1000000) as n order by n desc) as s"
            )
    assert not isinstance(refused.value, DatabaseUnavailableError)


def test_the_limits_are_in_force_from_the_first_statement_on(dsn: str) -> None:
    limits = SessionLimits(statement_ms=1234, lock_ms=567, idle_in_transaction_ms=891, tcp_ms=2345)
    with connections.connect(dsn, limits=limits, application_name="a worker") as connection:
        shown = {
            name: connection.execute(f"show {name}".encode()).fetchone()
            for name in (
                "statement_timeout",
                "lock_timeout",
                "idle_in_transaction_session_timeout",
                "timezone",
                "application_name",
            )
        }
    assert shown == {
        "statement_timeout": ("1234ms",),
        "lock_timeout": ("567ms",),
        "idle_in_transaction_session_timeout": ("891ms",),
        "timezone": ("UTC",),
        "application_name": ("a worker",),
    }


def test_statements_are_not_compiled_whatever_the_server_says(dsn: str) -> None:
    with connections.connect(dsn) as connection:
        connection.execute(
            "do $$ begin execute format('alter database %I set jit = on', current_database()); end $$"
        )
    with psycopg.connect(dsn) as others, connections.connect(dsn) as ours:
        assert others.execute("show jit").fetchone() == ("on",)
        assert ours.execute("show jit").fetchone() == ("off",)


@pytest.mark.parametrize("lease_seconds", [1, 30, 300, 86_400])
def test_every_limit_lies_below_half_the_lease(lease_seconds: int) -> None:
    limits = SessionLimits.for_lease(lease_seconds)
    for limit in (limits.statement_ms, limits.lock_ms, limits.idle_in_transaction_ms, limits.tcp_ms):
        assert 0 < limit < lease_seconds * 500


def test_a_statement_that_takes_too_long_is_busy_and_the_session_goes_on(dsn: str) -> None:
    limits = SessionLimits(statement_ms=50, lock_ms=50, idle_in_transaction_ms=5000, tcp_ms=5000)
    with connections.connect(dsn, limits=limits) as connection:
        with (
            pytest.raises(TimeLimitError, match=r"statement timeout\. .* can be repeated"),
            translated_errors(),
        ):
            connection.execute("select pg_sleep(30)")
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_lock_that_is_not_to_be_had_is_busy(dsn: str, two_rows: Connection) -> None:
    limits = SessionLimits(statement_ms=5000, lock_ms=50, idle_in_transaction_ms=5000, tcp_ms=5000)
    with connections.connect(dsn, limits=limits) as waiting, two_rows.transaction():
        two_rows.execute("update pair set visits = 1 where id = 1")
        with pytest.raises(DatabaseBusyError), translated_errors():
            waiting.execute("update pair set visits = 2 where id = 1")


def test_a_session_that_sleeps_inside_a_transaction_is_cut_off_and_blocks_nobody(
    dsn: str, two_rows: Connection
) -> None:
    limits = SessionLimits(statement_ms=5000, lock_ms=5000, idle_in_transaction_ms=50, tcp_ms=5000)
    with connections.connect(dsn, limits=limits) as frozen:
        frozen.execute("begin")
        frozen.execute("update pair set visits = 100 where id = 1")
        # Waits for the row until the server has ended the other session.
        two_rows.execute("update pair set visits = visits + 1 where id = 1")
        # No outage, and no doubt about what became of it: the reason is told as it is.
        with pytest.raises(TimeLimitError, match=r"idle.* Nothing was changed"), translated_errors():
            frozen.execute("commit")
    assert visits(two_rows) == [1, 0]


def test_a_deadlock_is_tried_again(
    two_rows: Connection, connect: Callable[[], Connection], pool: Pool
) -> None:
    other = connect()
    other.execute("set deadlock_timeout = '60s'")
    other.execute("begin")
    other.execute("update pair set visits = visits + 1 where id = 2")
    rival: list[threading.Thread] = []

    def take_first_row() -> None:
        other.execute("update pair set visits = visits + 1 where id = 1")
        other.execute("commit")

    def visit_both(pooled: Connection) -> None:
        with pooled.transaction():
            # The one that looks first is the one that is given up.
            pooled.execute("set local deadlock_timeout = '300ms'")
            pooled.execute("update pair set visits = visits + 1 where id = 1")
            if not rival:
                rival.append(threading.Thread(target=take_first_row))
                rival[0].start()
            pooled.execute("update pair set visits = visits + 1 where id = 2")

    call_idempotent(pool, visit_both)
    rival[0].join(timeout=240)
    assert visits(two_rows) == [2, 2]


def test_a_serialization_failure_is_tried_again(two_rows: Connection, pool: Pool) -> None:
    attempts = 0

    def visit(pooled: Connection) -> None:
        nonlocal attempts
        attempts += 1
        with pooled.transaction():
            pooled.execute("set transaction isolation level repeatable read")
            pooled.execute("select from pair")
            if attempts == 1:
                two_rows.execute("update pair set visits = visits + 1 where id = 1")
            pooled.execute("update pair set visits = visits + 1 where id = 1")

    call_idempotent(pool, visit)
    assert attempts == 2
    assert visits(two_rows) == [2, 0]


def test_a_connection_lost_on_the_way_is_replaced_and_the_call_made_again(
    connection: Connection, pool: Pool
) -> None:
    attempts = 0

    def notify(pooled: Connection) -> int | None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            cut_pooled_connections(connection)
        return files.enqueue_file(pooled, "file:///a", "TOOL01")

    assert call_idempotent(pool, notify) is not None
    assert attempts == 2
    assert len(queue.list_queue(connection)) == 1


def test_attempts_are_bounded_and_the_last_failure_is_told(pool: Pool) -> None:
    attempts = 0

    def never_free(pooled: Connection) -> None:
        nonlocal attempts
        attempts += 1
        pooled.execute(
            "do $$ begin raise exception 'still locked' using errcode = 'lock_not_available'; end $$"
        )

    with pytest.raises(DatabaseBusyError, match="still locked"):
        call_idempotent(pool, never_free, attempts=3)
    assert attempts == 3


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        pytest.param(
            lambda connection: files.enqueue_file(connection, "", "TOOL01"), InvalidRequestError, id="invalid"
        ),
        pytest.param(
            lambda connection: claim_ends.complete_item(connection, QueueId(1), Holder("W", Incarnation(1))),
            LeaseLostError,
            id="lease lost",
        ),
        pytest.param(lambda connection: connection.execute("select 1 / 0"), InvalidRequestError, id="data"),
        pytest.param(lambda connection: connection.execute("selec"), ControlError, id="syntax"),
    ],
)
def test_a_refusal_is_never_tried_again(
    pool: Pool, refused: Callable[[Connection], object], error: type[ControlError]
) -> None:
    attempts = 0

    def attempt(pooled: Connection) -> object:
        nonlocal attempts
        attempts += 1
        return refused(pooled)

    with pytest.raises(error):
        call_idempotent(pool, attempt)
    assert attempts == 1


def test_every_code_that_a_function_raises_is_our_own_and_has_its_exception() -> None:
    texts = [file.read_text() for file in (SQL_FOLDER / "functions").iterdir()]
    raised = {code for text in texts for code in re.findall(r"errcode = '(\w+)'", text)}
    # One is the server's own: what a role may not do is told alike, whether a grant or a rule of ours forbids it.
    assert raised - {"42501"} == set(OWN_CODES)
    assert "42501" in ACCESS_CODES


def test_every_exception_that_a_function_raises_names_its_code() -> None:
    for file in (SQL_FOLDER / "functions").iterdir():
        for statement in re.findall(r"raise exception.*?;$", file.read_text(), re.DOTALL | re.MULTILINE):
            assert re.search(r"using\s+errcode = ", statement), f"{file.name}: {statement}"
