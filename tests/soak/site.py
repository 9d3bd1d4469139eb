"""The whole plant in a folder of its own: inbox, agent, broker, workers, database, lake, and lines that can be cut."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from disarray.control import connections
from disarray.control.queue import Holder, Incarnation
from disarray.engine.runner import InProcessRunner
from disarray.formats.loader import load_datasets
from disarray.store.lake import Lake
from disarray.worker.housekeeping_settings import DEFAULTS
from disarray.worker.workplace import Workplace
from tests.soak.landing import Inbox, description
from tests.soak.line import Line
from tests.soak.operator import Operator
from tests.soak.servers import Broker, Postgres
from tests.soak.stations import Station, Supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEASE_SECONDS = 10
# Each subject is served by one worker or by two, so that a frozen one has a successor.
PATTERNS = {
    "Worker01": "TOOL0*, TOOL1*, TOOL2*",
    "Worker02": "TOOL2*, TOOL3*, TOOL4*",
    "Worker03": "TOOL4*, TOOL5*, TOOL6*, TOOL0*",
}
# Far below what an installation may set, so that an hour of housekeeping fits into minutes.
HOUSEKEEPING = replace(
    DEFAULTS,
    cold_after=timedelta(seconds=20),
    compact_fragments=4,
    compact_readings=20_000,
    vacuum_after=timedelta(seconds=90),
)
_OPEN_SECONDS = 90.0
_SETTINGS = """\
[database]
dsn = "{dsn}"
[broker]
url = "amqp://guest:guest@127.0.0.1:{broker_port}/%2F"
[agent]
scan_every = "2 s"
tiers = "2 min every 0 s, older every 20 s"
[worker]
runner = "in-process"
lease = "{lease} s"
drain_within = "20 s"
[housekeeping]
cold_after = "20 s"
compact_fragments = "4"
[spark]
master = "local[1]"
driver.memory = "768m"
[lake]
root = "lake"
"""


@dataclass(frozen=True)
class Site:
    """The parts of the plant that faults strike at."""

    folder: Path
    inbox: Inbox
    postgres: Postgres
    broker: Broker
    database_line: Line
    broker_line: Line
    workers: tuple[Station, ...]
    agent: Station
    supervisor: Supervisor
    operator: Operator
    house: Workplace  # on a line of its own: the checks must not be struck

    def open(self) -> None:
        """Staff the workers, wait until each has its queue on the broker, and let the agent begin.

        RabbitMQ that is killed while it makes a quorum queue may come back with one that never elects a leader. That
        is no fault of ours to survive, so nothing strikes before the queues are there.
        """
        give_up_at = time.monotonic() + _OPEN_SECONDS
        while not all(worker.says("consumes from") for worker in self.workers):
            for worker in self.workers:
                worker.staff()
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"a worker did not begin; its log is in {self.folder}")
            time.sleep(0.2)
        self.supervisor.start()

    @property
    def stations(self) -> tuple[Station, ...]:
        """Everything that is staffed."""
        return (self.agent, *self.workers)


@contextmanager
def built_site(folder: Path, *, days: int, quiet_minutes: float) -> Iterator[Site]:
    """A plant that runs; all of it is ended after the block, however that ends."""
    with ExitStack() as stack:
        inbox = Inbox(folder / "inbox")
        postgres = Postgres(folder / "state")
        stack.callback(postgres.end)
        broker = Broker(folder / "broker")
        stack.callback(broker.end)
        database_line, broker_line = Line(postgres.socket), Line(broker.port)
        stack.callback(database_line.close)
        stack.callback(broker_line.close)
        settings = _SETTINGS.format(
            dsn=f"postgresql://postgres@127.0.0.1:{database_line.port}/disarray?sslmode=disable",
            broker_port=broker_line.port,
            lease=LEASE_SECONDS,
        )
        described = folder / "disarray.toml"
        described.write_text(settings + description(days=days, quiet_minutes=quiet_minutes))
        workers = tuple(
            Station(name, "worker", "--name", name, "--patterns", patterns, folder=folder)
            for name, patterns in PATTERNS.items()
        )
        agent = Station("agent", "agent", folder=folder)
        supervisor = Supervisor((agent, *workers))
        for station in (agent, *workers):
            stack.callback(station.destroy)
        stack.callback(supervisor.stop)
        pool = stack.enter_context(connections.open_pool(postgres.dsn, application_name="soak"))
        house = Workplace(
            pool,
            InProcessRunner(),
            Lake(folder / "lake"),
            {dataset.name: dataset for dataset in load_datasets(described)},
            Holder("soak", Incarnation(0)),
            housekeeping=HOUSEKEEPING,
        )
        yield Site(
            folder,
            inbox,
            postgres,
            broker,
            database_line,
            broker_line,
            workers,
            agent,
            supervisor,
            Operator(inbox, folder),
            house,
        )
