"""A database without room: a pass changes all or nothing, nobody is blamed, and all is done once there is room."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from disarray import embedded
from disarray.control import connections, migrations
from disarray.worker.process.scheduler import Scheduler
from tests.blocks import set_block_length
from tests.disks import fill_disk, grow_disk, tiny_disk
from tests.plant import Plant
from tests.processes import eventually
from tests.reading_lines import HEADER
from tests.worker.deliveries import DATASET, rows
from tests.worker.soundness import assert_sound

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.postgres


@pytest.fixture(params=["its tables", "all of the server"])
def tiny(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    """A database of which its tables, or the whole server, have a small disk of their own; and that disk."""
    folder = Path(tempfile.mkdtemp(prefix="disarray-tiny-"))
    folder.chmod(0o755)  # the server has an account of its own
    with tiny_disk(folder, size="512m"):
        opened = tiny_tables(request, folder) if request.param == "its tables" else tiny_server(folder)
        with opened as dsn:
            yield dsn, folder
    folder.rmdir()


@contextmanager
def tiny_tables(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    server_dsn: str = request.getfixturevalue("server_dsn")
    template = sql.Identifier(request.getfixturevalue("template_database"))
    name = f"tiny_{uuid.uuid4().hex}"
    space, database = sql.Identifier(name), sql.Identifier(name)
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        place = folder / "space"
        place.mkdir()
        backend = Path(f"/proc/{admin.info.backend_pid}")
        if not backend.exists():
            pytest.skip("the server is not on this machine: it cannot be given a small disk")
        os.chown(place, backend.stat().st_uid, -1)
        admin.execute(sql.SQL("create tablespace {} location {}").format(space, sql.Literal(str(place))))
        admin.execute(
            sql.SQL("create database {} template {} tablespace {}").format(database, template, space)
        )
        yield psycopg.conninfo.make_conninfo(server_dsn, dbname=name)
        admin.execute(sql.SQL("drop database {} with (force)").format(database))
        admin.execute(sql.SQL("drop tablespace {}").format(space))


@contextmanager
def tiny_server(folder: Path) -> Iterator[str]:
    state = folder / "state"
    try:
        dsn = embedded.start(state).dsn
        with connections.connect(dsn) as connection:
            migrations.migrate(connection)
            set_block_length(connection)
        yield dsn
    finally:
        embedded.stop(state)


@contextmanager
def at_work(plant: Plant) -> Iterator[None]:
    """A worker that goes on until the block ends."""
    stop = threading.Event()
    scheduler = Scheduler(plant.place, idle_seconds=0.1)
    worker = threading.Thread(target=scheduler.run, args=(stop,))
    worker.start()
    try:
        yield
    finally:
        stop.set()
        scheduler.wake()
        worker.join(timeout=240)
    assert not worker.is_alive()


def test_a_pass_that_finds_no_room_is_done_again_by_itself_when_there_is_some(
    tmp_path: Path, tiny: tuple[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    dsn, disk = tiny
    plant = Plant(tmp_path, dsn, description=DATASET % {"key": ""})
    small = plant.write("L1/small.csv", HEADER + "".join(rows(random.Random(1), 20)))
    plant.ingest(small)
    before = plant.derived()
    large = [
        plant.write(f"L{seed}/large.csv", HEADER + "".join(rows(random.Random(seed), 3000)))
        for seed in (1, 2)
    ]
    plant.notify(*large)
    # The log of the server has a whole file before it: without room for the next one the server would end, not a pass.
    plant.rows("select pg_switch_wal()")
    plant.rows("select pg_logical_emit_message(true, 'room', '')")
    fill_disk(disk)
    with at_work(plant):
        eventually(lambda: "No space left on device" in caplog.text)
        assert plant.derived() == before
        told = [
            record.getMessage()
            for record in caplog.records
            if "No space left on device" in record.getMessage()
        ]
        assert told[0].startswith("the database is away: the disk of the database is full: could not ")
        assert "Nothing was changed. Free space there: what waits for it goes on by itself." in told[0]
        grow_disk(disk, size="1g")
        eventually(
            lambda: plant.rows("select count(*) from disarray.file_info where status = 'processed'") == [(3,)]
        )
    assert plant.rows("select distinct retry_count, crash_count, last_error from disarray.file_info") == [
        (0, 0, None)
    ]
    assert_sound(plant, [small, *large])
    plant.pool.close()


def test_a_server_that_ended_for_want_of_room_loses_nothing_and_workers_go_on_once_it_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Path(tempfile.mkdtemp(prefix="disarray-tiny-"))
    disk.chmod(0o755)
    with tiny_disk(disk, size="512m"), tiny_server(disk) as dsn:
        plant = Plant(tmp_path, dsn, description=DATASET % {"key": ""})
        paths = [
            plant.write(f"L1/{seed}.csv", HEADER + "".join(rows(random.Random(seed), 200))) for seed in (1, 2)
        ]
        plant.ingest(paths[0])
        plant.notify(paths[1])
        exhaust_journal(dsn, disk)
        eventually(lambda: embedded.status(disk / "state").condition is embedded.Condition.STOPPED)
        with at_work(plant):
            eventually(lambda: "the database is away" in caplog.text)
            grow_disk(disk, size="1g")
            # As an operator does, or whatever looks after a server.
            assert embedded.start(disk / "state").dsn == dsn
            eventually(
                lambda: plant.rows("select status::text from disarray.file_info") == [("processed",)] * 2
            )
        assert_sound(plant, paths)
        plant.pool.close()
    disk.rmdir()


def exhaust_journal(dsn: str, disk: Path) -> None:
    """Rewrite rows where they are, on a full disk, until PostgreSQL finds no room for its journal and shuts down."""
    with psycopg.connect(dsn, autocommit=True) as burning:
        burning.execute("create table public.burnt (id int primary key, value text) with (fillfactor = 10)")
        burning.execute("insert into public.burnt select number, '' from generate_series(1, 5000) as number")
        burning.execute("checkpoint")
        fill_disk(disk)
        with suppress(psycopg.OperationalError):
            for number in range(1000):
                burning.execute("update public.burnt set value = repeat(%s::text, 50)", (number,))
