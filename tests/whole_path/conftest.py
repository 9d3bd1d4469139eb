"""One system for each transport, through which the whole catalogue goes together: agent, broker, worker, store."""

from __future__ import annotations

import os
import re
import signal
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pika  # type: ignore[import-untyped]
import pytest

from disarray.broker.topology import Names
from disarray.model.uris import file_uri
from disarray.store.lake import Lake
from tests.broker.conftest import broker_url as broker_url
from tests.kernels.test_reading import HEADER, lines
from tests.plant import Plant
from tests.processes import Running, eventually
from tests.whole_path.journeys import DESCRIPTION, JOURNEYS, ROUNDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import Databases
    from tests.whole_path.journeys import Journey

NEIGHBOUR = HEADER + lines(600, 607)


@dataclass
class System:
    """What went through, and where it can be looked up."""

    plant: Plant
    worker: Running
    names: Names | None
    broker: str | None
    agent_logs: list[str] = field(default_factory=list)

    def path(self, journey: Journey) -> Path:
        return self.plant.inbox / journey.dataset / journey.subject / journey.file_name

    @property
    def lake(self) -> Lake:
        """Where the worker keeps fragments."""
        return Lake(self.plant.inbox.parent / ".disarray" / "lake")

    def uri(self, journey: Journey) -> str:
        return file_uri(str(self.path(journey)))

    def file(self, uri: str) -> tuple[Any, ...]:
        """Status, lines, rejects by reason, error and crashes of a file: of its parked version where one waits."""
        quoted = uri.replace("'", "''")
        [found] = self.plant.rows(
            "select status::text, newest -> 'lines', coalesce(newest -> 'rejected', '{}'), last_error, crash_count "
            "from disarray.file_info cross join lateral (select coalesce(metadata -> 'parked_version', metadata)) as "
            f"version (newest) where source_uri = '{quoted}'"
        )
        return found

    def announce(self, number: int) -> None:
        """Run an agent over the inbox, and wait until the worker has done all that it found."""
        where = [] if self.broker is None else ["--broker", self.broker]
        [(started,)] = self.plant.rows("select disarray.clock()::text")
        agent = Running("agent", "--once", *where, project=self.plant.inbox.parent, log=f"agent-{number}.log")
        try:
            assert agent.process.wait(timeout=240) == 0, agent.log
        finally:
            agent.kill()
        self.agent_logs.append(agent.log)
        [sent] = re.findall(r"files, \d+ notifications, (\d+) sent", agent.log)
        # Messages that the broker has are not yet in the queue: an empty queue alone says nothing.
        eventually(
            lambda: (
                self.plant.rows(f"select count(*) from disarray.file_info where last_seen_at >= '{started}'")
                == [(int(sent),)]
            )
        )
        expected = sum(len(journey.steps) > 0 and not journey.refused for journey in JOURNEYS) + len(
            {(journey.dataset, journey.subject) for journey in JOURNEYS}
        )
        eventually(lambda: self.plant.rows("select count(*) from disarray.file_info") == [(expected,)])
        eventually(lambda: self.plant.rows("select count(*) from disarray.ingest_queue") == [(0,)])


def put_round(system: System, number: int) -> None:
    """What happens to every file in one round."""
    for journey in JOURNEYS:
        path = system.path(journey)
        path.parent.mkdir(parents=True, exist_ok=True)
        if number == 0:
            neighbour = (
                NEIGHBOUR if journey.dataset != "encoded" else b"text," + NEIGHBOUR.replace(b"\n2", b"\nok,2")
            )
            (path.parent / "neighbour.csv").write_bytes(neighbour)
            if journey.make is not None:
                journey.make(path)
        if number < len(journey.steps):
            data = journey.steps[number]
            if data is None:
                path.unlink()
                continue
            path.write_bytes(data)
            # Long ago enough to be quiet, or changed just now.
            stamp = time.time() - (10 * 86400 if journey.is_quiet else 0) + number
            os.utime(path, (stamp, stamp))


@pytest.fixture(scope="module", params=["RabbitMQ", "PostgreSQL"])
def system(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    databases: Databases,
    template_database: str,
) -> Iterator[System]:
    """A system through which the catalogue has gone."""
    root = tmp_path_factory.mktemp("system")
    url: str | None = request.getfixturevalue("broker_url") if request.param == "RabbitMQ" else None
    names = None if url is None else Names(f"test-{uuid.uuid4().hex[:12]}")
    database = databases.create(template=template_database)
    dsn = databases.dsn(database)
    settings = f'[database]\ndsn = "{dsn}"\n[worker]\nrunner = "in-process"\n'
    if names is not None:
        settings += f'[broker]\nprefix = "{names.prefix}"\n'
    plant = Plant(root, dsn, description=settings + DESCRIPTION)
    where = [] if url is None else ["--broker", url]
    worker = Running("worker", "--name", "Worker01", *where, project=root, log="worker.log")
    try:
        worker.wait_for("consumes from" if url is not None else "Worker01")
        built = System(plant, worker, names, url)
        for number in range(ROUNDS):
            put_round(built, number)
            built.announce(number)
        yield built
        assert worker.end(signal.SIGTERM) == 0, worker.log
    finally:
        worker.kill()
        plant.pool.close()
        if names is not None and url is not None:
            remove_names(url, names)
        databases.discard(database)


def remove_names(url: str, names: Names) -> None:
    """Leave nothing on the broker."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    for queue in (names.dead_queue, names.worker_queue("Worker01")):
        channel.queue_delete(queue)
    for exchange in (names.exchange, names.dead_exchange):
        channel.exchange_delete(exchange)
    connection.close()
