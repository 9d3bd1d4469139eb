"""The PostgreSQL that all tests share, and a fresh database for each test."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from disarray import embedded
from disarray.control import connections, migrations
from tests.blocks import set_block_length
from tests.databases import TIMESCALE, Databases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from pyspark.sql import SparkSession

    from disarray.control.connections import Connection

# Folders of tests are in memory where there is room: a clone of a database is hundreds of small files, and a tenth of
# the work there. What has to be on a disk of its own mounts one.
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# How long an example takes depends on who else uses the machine; that is no property of ours.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("patient", PATIENT)
# In CI the same examples every time: what goes red there is about the change. Elsewhere they are new ones.
settings.register_profile("repeatable", PATIENT, derandomize=True, database=None)
settings.load_profile("repeatable" if os.environ.get("CI") else "patient")

REAL_DATA = Path(os.environ.get("DISARRAY_REAL_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a test asks for says what it needs: nobody has to remember the marker."""
    needs = {"postgres": {"server_dsn", "state_dir"}, "spark": {"spark_session"}}
    for item in items:
        for marker, fixtures in needs.items():
            if fixtures & set(getattr(item, "fixturenames", ())):
                item.add_marker(marker)
    # The slowest files first: a run ends with what is over in a moment, and no process waits long for another.
    markers: defaultdict[Path, set[str]] = defaultdict(set)
    for item in items:
        markers[item.path] |= {mark.name for mark in item.iter_markers()}
    items.sort(key=lambda item: ["spark" not in markers[item.path], "postgres" not in markers[item.path]])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file is run by one process, and all files of the engine by the same one: a JVM takes seconds to start."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    def unit_of(nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        return str(path.parent if path.parent.name == "engine" else path)

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = unit_of
    return scheduler


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real instrument files; without it the test reports itself skipped."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no real instrument files at {REAL_DATA} (set DISARRAY_REAL_DATA)")
    return REAL_DATA.resolve()


@pytest.fixture(scope="session")
def server_dsn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A superuser's DSN: of DISARRAY_TEST_DSN, or of an embedded server that ends with this test process.

    With DISARRAY_TEST_TIMESCALE_DSN the server has TimescaleDB, and so has every database that is made on it.
    """
    if given := os.environ.get(TIMESCALE) or os.environ.get("DISARRAY_TEST_DSN"):
        yield given
        return
    state = tmp_path_factory.mktemp("server")
    try:
        dsn = embedded.start(state).dsn
        with psycopg.connect(dsn, autocommit=True) as admin:
            # What survives a power cut is tested elsewhere; waiting for the disk would be most of the time here.
            admin.execute("alter system set fsync = off")
            admin.execute("alter system set full_page_writes = off")
            admin.execute("select pg_reload_conf()")
        yield dsn
    finally:
        embedded.stop(state)


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """Spark on two cores of this machine: one JVM for all tests of a process, which takes seconds to start."""
    from disarray.engine.session import SHORT_LIVED, start_session

    session = start_session({"spark.master": "local[2]", **SHORT_LIVED})
    yield session
    session.stop()


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """A state folder that does not exist yet, and whose server is surely gone after the test."""
    state = tmp_path / "project" / ".disarray"
    yield state
    embedded.stop(state)


@pytest.fixture(scope="session")
def databases(server_dsn: str) -> Iterator[Databases]:
    """Makes databases on the server of the tests."""
    made = Databases(server_dsn)
    yield made
    made.drop_discarded()


@pytest.fixture(scope="session")
def template_database(databases: Databases, server_dsn: str) -> Iterator[str]:
    """A migrated database that tests clone, with a clock that tests can set."""
    name = databases.create()
    with connections.connect(databases.dsn(name)) as connection:
        migrations.migrate(connection)
        connection.execute(
            """
            create table disarray.test_clock (ahead interval not null);
            insert into disarray.test_clock values ('0');
            alter table disarray.test_clock owner to disarray_owner;
            create or replace function disarray.clock() returns timestamptz language sql stable
            as 'select clock_timestamp() + (select ahead from disarray.test_clock)';
            """
        )
        set_block_length(connection)
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        # Else TimescaleDB looks into it now and then, and nothing can be cloned for as long.
        admin.execute(sql.SQL("alter database {} allow_connections false").format(sql.Identifier(name)))
    yield name
    databases.discard(name)


@pytest.fixture
def dsn(databases: Databases, template_database: str) -> Iterator[str]:
    """The DSN of a fresh migrated database."""
    name = databases.create(template=template_database)
    yield databases.dsn(name)
    databases.discard(name)


@pytest.fixture(scope="module")
def shared_dsn(databases: Databases, server_dsn: str, template_database: str) -> Iterator[str]:
    """A migrated database for a whole module: hundreds of short tests cannot afford a clone each."""
    name = databases.create(template=template_database)
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        # These tests are about order, not about durability; waiting for the disk is most of their time.
        admin.execute(sql.SQL("alter database {} set synchronous_commit = off").format(sql.Identifier(name)))
    yield databases.dsn(name)
    databases.discard(name)


@pytest.fixture
def connect(dsn: str) -> Iterator[Callable[[], Connection]]:
    """Opens any number of connections to the test's database, and closes them after it."""
    opened: list[Connection] = []

    def open_one() -> Connection:
        opened.append(connections.connect(dsn))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect: Callable[[], Connection]) -> Connection:
    """A connection to the test's own database, as its superuser."""
    return connect()


@pytest.fixture
def advance_clock(connection: Connection) -> Callable[[timedelta], None]:
    """Moves the clock of the test's database; leases run out without waiting."""

    def advance(by: timedelta) -> None:
        connection.execute("update disarray.test_clock set ahead = ahead + %s", (by,))

    return advance
