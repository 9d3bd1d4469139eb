"""Workers behind the real broker: who gets what, and what happens while the broker is away."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import report
from tests.plant import Plant
from tests.processes import Running, eventually
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from disarray.broker.topology import Names
    from tests.broker.conftest import Door

pytestmark = pytest.mark.postgres


@pytest.fixture
def plant(tmp_path: Path, dsn: str, names: Names) -> Iterator[Plant]:
    """A project on the broker; its workers run their kernels in their own process."""
    settings = (
        f'[database]\ndsn = "{dsn}"\n[broker]\nprefix = "{names.prefix}"\n[worker]\nrunner = "in-process"\n'
    )
    built = Plant(tmp_path, dsn, description=settings + DATASET)
    yield built
    built.pool.close()


@pytest.fixture
def start(plant: Plant) -> Iterator[Callable[..., Running]]:
    """Starts commands in the project, each telling into a file of its own."""
    started: list[Running] = []

    def start_one(*arguments: str) -> Running:
        log = f"{len(started)}.log"
        started.append(Running(*arguments, project=plant.inbox.parent, log=log))
        return started[-1]

    yield start_one
    for each in started:
        each.kill()


def processed(plant: Plant) -> object:
    [(number,)] = plant.rows("select count(*) from disarray.file_info where status = 'processed'")
    return number


def test_two_workers_share_twenty_tools_by_pattern_and_none_touches_the_others(
    plant: Plant, start: Callable[..., Running], broker_url: str
) -> None:
    for number in range(1, 21):
        for hour in (3, 1, 2):
            plant.write(f"TOOL{number:02d}/{hour}.csv", report(hour))
    workers = [
        start("worker", "--name", "Worker01", "--patterns", "TOOL0*", "--broker", broker_url),
        start("worker", "--name", "Worker02", "--patterns", "TOOL1*, TOOL20", "--broker", broker_url),
    ]
    for worker in workers:
        worker.wait_for("consumes from")  # its queue is there: nothing is unroutable
    agent = start("agent", "--once", "--broker", broker_url)
    assert agent.process.wait(timeout=240) == 0, agent.log
    eventually(lambda: processed(plant) == 60)
    for worker in workers:
        assert worker.end(signal.SIGTERM) == 0
    held = plant.rows("select distinct instance_name, subject_key from disarray.run order by 2")
    assert held == [
        ("Worker01" if number < 10 else "Worker02", f"TOOL{number:02d}") for number in range(1, 21)
    ]
    assert all("0 dead letters" in worker.log for worker in workers)


def test_a_broker_that_was_away_is_caught_up_with(
    plant: Plant, start: Callable[..., Running], door: Door, broker_url: str
) -> None:
    worker = start("worker", "--name", "Worker01", "--broker", door.url)
    worker.wait_for("consumes from")
    door.shut()
    worker.wait_for("the broker is away")
    plant.write("TOOL01/a.csv", report(0))
    agent = start("agent", "--once", "--broker", broker_url)
    assert agent.process.wait(timeout=240) == 0, agent.log
    door.reopen()
    worker.wait_for("the broker is back")
    eventually(lambda: processed(plant) == 1)
    assert worker.end(signal.SIGTERM) == 0
    assert worker.log.count("the broker is away") == 1
