"""PostgreSQL and RabbitMQ are pulled from under a worker that lives on: it waits, and ends where it would have been."""

from __future__ import annotations

import os
import re
import signal
import time
import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from disarray import embedded
from disarray.control import connections, migrations

# Fixtures of the broker's own tests.
from tests.blocks import set_block_length
from tests.broker.conftest import broker_url, channel, door, names  # noqa: F401
from tests.faults.site import Site, assert_sound
from tests.faults.watcher import Watcher
from tests.processes import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.broker.topology import Names
    from tests.broker.conftest import Door

pytestmark = pytest.mark.postgres

CLOCK = """
create table disarray.test_clock (ahead interval not null);
insert into disarray.test_clock values ('0');
alter table disarray.test_clock owner to disarray_owner;
create or replace function disarray.clock() returns timestamptz language sql stable
as 'select clock_timestamp() + (select ahead from disarray.test_clock)';
"""


def test_a_server_stopped_at_once_in_the_middle_of_commits_costs_a_worker_nothing_but_time(
    tmp_path: Path, state_dir: Path
) -> None:
    state_dir.parent.mkdir(parents=True)
    dsn = embedded.start(state_dir).dsn
    with connections.connect(dsn) as connection:
        migrations.migrate(connection)
        set_block_length(connection)
        connection.execute(CLOCK)
    site = Site(tmp_path, dsn)
    site.deliveries.deliver_history()
    site.deliveries.deliver_batch()
    points = ["read.after", "commit.stated", "commit.before_commit"]
    with Watcher(dsn, site.deliveries) as watcher:
        worker = site.start(armed=";".join(f"{point}=sleep:2" for point in points))
        for number in range(len(points)):
            worker.await_(lambda number=number: len(worker.strikes) > number)  # type: ignore[misc]
            stop_at_once(state_dir)
            embedded.start(state_dir)
        eventually(site.is_drained)
        assert worker.end() == 0, worker.log
        assert [point for point, _ in worker.strikes] == points
        assert_sound(site, watcher)
    site.close()


def stop_at_once(state_dir: Path) -> None:
    """What `pg_ctl stop -m immediate` does: no checkpoint, no farewell."""
    server = embedded.status(state_dir).server
    assert server is not None
    os.kill(server.pid, signal.SIGQUIT)
    eventually(lambda: embedded.status(state_dir).server is None)


@pytest.fixture
def narrow_dsn(server_dsn: str, site: Site) -> Iterator[str]:
    """The test's database for a worker's role that gets two connections and no more."""
    role = f"disarray_test_{uuid.uuid4().hex[:12]}"
    name = sql.Identifier(role)
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login connection limit 2 in role disarray_worker").format(name))
        yield psycopg.conninfo.make_conninfo(site.dsn, user=role)
        with psycopg.connect(site.dsn, autocommit=True) as database:
            database.execute(sql.SQL("drop owned by {} cascade").format(name))
        admin.execute(sql.SQL("drop role {}").format(name))


def test_a_worker_that_gets_too_few_connections_or_none_waits_and_goes_on(
    site: Site, watcher: Watcher, narrow_dsn: str
) -> None:
    role = str(psycopg.conninfo.conninfo_to_dict(narrow_dsn)["user"])
    worker = site.start("--dsn", narrow_dsn, "worker", "--name", "W1", armed="plan.after=sleep:2")
    worker.await_(lambda: "W1 (life" in worker.log)
    limit = sql.SQL("alter role {} connection limit {}")
    with psycopg.connect(site.dsn, autocommit=True) as admin:
        admin.execute(limit.format(sql.Identifier(role), 0))
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", (role,))
        worker.await_(lambda: "the database is away" in worker.log)
        site.deliveries.deliver_batch()
        time.sleep(1)
        admin.execute(limit.format(sql.Identifier(role), 2))
    worker.await_(site.is_drained)
    assert "the database is back" in worker.log
    assert worker.end() == 0, worker.log
    assert_sound(site, watcher)


def test_a_broker_lost_between_queue_and_acknowledgement_sends_copies_that_are_absorbed(
    tmp_path: Path,
    dsn: str,
    names: Names,  # noqa: F811
    door: Door,  # noqa: F811
    broker_url: str,  # noqa: F811
) -> None:
    site = Site(tmp_path, dsn)
    site.set("[database]", f'[broker]\nprefix = "{names.prefix}"\n[database]')
    site.deliveries.write_new_files()
    with Watcher(dsn, site.deliveries) as watcher:
        worker = site.start("worker", "--name", "Worker01", "--broker", door.url, armed="ack.before=sleep:6")
        worker.await_(lambda: "consumes from" in worker.log)
        agent = site.start("agent", "--once", "--broker", broker_url)
        assert agent.await_end() == 0, agent.log
        worker.await_(lambda: worker.strikes)
        door.shut()
        worker.await_(lambda: "the broker is away" in worker.log)
        door.reopen()
        worker.await_(lambda: "the broker is back" in worker.log)
        worker.await_(site.is_drained)
        absorbed = len(site.deliveries.sources)
        # When they come is up to the broker, which has to find out that nobody will acknowledge them.
        copies = re.compile(r"(\d+) copies came again")
        worker.await_(lambda: sum(map(int, copies.findall(worker.log))) == absorbed)
        assert worker.end() == 0, worker.log
    assert f"{absorbed} copies absorbed, 0 dead letters" in worker.log
    site.deliveries.note_versions()
    assert site.problems() == []
    assert watcher.problems() == []
    site.close()
