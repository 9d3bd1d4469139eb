"""A drainer is killed between every two steps, and again when it tries again: nothing is lost, nothing comes twice."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.worker.upkeep.delivery_upkeep import sweep_landing
from tests.forked import live
from tests.sources.inbox_plant import InboxPlant, drain_all, event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DRAINERS = ("inbox.before_claim", "inbox.claimed")
STEPS = (*DRAINERS, "deliver.written", "deliver.recorded", "deliver.committed")
EVENTS = 10  # three batches
POISON = 3


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[InboxPlant]:
    built = InboxPlant(tmp_path, dsn)
    yield built
    built.pool.close()


def send(plant: InboxPlant) -> None:
    events = [event(number) for number in range(EVENTS)]
    events[POISON]["at"] = "yesterday"
    assert plant.record(events).new == EVENTS


def settle(plant: InboxPlant, dsn: str, folder: Path) -> dict[str, object]:
    """Drain until nothing waits, and all that must be as without faults."""
    for _ in range(4):
        assert live(drain_all, dsn, folder) == 0
        with plant.pool.connection() as connection:
            connection.execute("update disarray.test_clock set ahead = ahead + %s", (timedelta(minutes=30),))
    plant.drain()
    [(taken, rows)] = plant.rows(
        "select (select sum(rows_taken) from disarray.delivery_batch), (select sum(rows) from disarray.delivery)"
    )
    return {
        "derived": plant.derived(),
        "states": plant.states(),
        "taken": taken,
        "rows": rows,
        "total": plant.total(),
    }


@pytest.fixture(scope="module")
def expected() -> dict[str, dict[str, object]]:
    """What a run without faults gives, found out once."""
    return {}


@pytest.mark.parametrize("hit", [1, *(pytest.param(hit, marks=pytest.mark.long) for hit in (2, 3))])
@pytest.mark.parametrize("point", STEPS)
def test_a_killed_drainer_delivers_every_event_once(
    plant: InboxPlant, dsn: str, tmp_path: Path, point: str, hit: int
) -> None:
    log = tmp_path / "failpoints.log"
    send(plant)
    for _ in range(2):  # the first attempt, and the retry
        armed = {"DISARRAY_FAILPOINTS": f"{point}=kill@{hit}", "DISARRAY_FAILPOINT_LOG": str(log)}
        code = live(drain_all, dsn, tmp_path, **armed)
        assert code in (-signal.SIGKILL, 0)
    kills = log.read_text().count(f"{point} kill")
    assert kills >= 1
    found = settle(plant, dsn, tmp_path)
    assert found["states"] == {"done": EVENTS - 1, "dead": 1}
    assert (found["taken"], found["rows"]) == (EVENTS - 1, EVENTS - 1)
    assert found["total"] == sum(number % 3 for number in range(EVENTS) if number != POISON)
    assert found["derived"] == without_faults(plant)
    long_ago = time.time() - 3 * 86_400
    for path in (tmp_path / "landing").rglob("*.jsonl"):
        os.utime(path, (long_ago, long_ago))
    with plant.pool.connection() as connection:
        sweep_landing(connection, plant.place)
    named = plant.rows("select count(*) from disarray.delivery")
    assert len(list((tmp_path / "landing").rglob("*.jsonl"))) == named[0][0]


def without_faults(plant: InboxPlant) -> dict[str, list[tuple[object, ...]]]:
    """The same events on an empty plant, drained in one piece."""
    plant.forget_everything()
    with plant.pool.connection() as connection:
        connection.execute("truncate disarray.raw_event")
    plant.record([event(number) for number in range(EVENTS) if number != POISON])
    plant.deliver()
    return plant.derived()
