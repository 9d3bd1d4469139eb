"""Random histories in which pullers and drainers die, fail and oversleep: every row and event is there once."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import psycopg
import pyarrow.parquet as pq
import pytest

from disarray.control import instances, raw_events, sources
from disarray.errors import DatabaseUnavailableError, LeaseLostError
from disarray.failpoints import InjectedError
from disarray.queries.readings import readings
from tests.crashes import CrashError, crash, fail, striking
from tests.sources.inbox_plant import SETTINGS, InboxPlant, event
from tests.sources.table_history import Writers, make_table, reader_url, table_rows
from tests.sources.table_plant import TablePlant
from tests.sources.test_killed_drainers import STEPS as DRAINING
from tests.sources.test_killed_pullers import STEPS as PULLING
from tests.sources.test_settled_watermarks import EXACT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.plant import Plant

HISTORIES = range(int(os.environ.get("DISARRAY_SOURCE_HISTORIES", "1")))
WRITES = 60


@pytest.fixture
def make_plant(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, int], TablePlant]]:
    built: list[TablePlant] = []

    def make(watermark: str, limit: int) -> TablePlant:
        monkeypatch.setenv("HISTORIAN_URL", reader_url(dsn))
        make_table(dsn, cache=5 if watermark == "cached sequence" else 1)
        known = "sequence" if watermark == "cached sequence" else watermark
        built.append(TablePlant(tmp_path, dsn, watermark=known, limit=limit))
        return built[-1]

    yield make
    for plant in built:
        plant.pool.close()


@pytest.mark.parametrize("seed", HISTORIES)
@pytest.mark.parametrize("watermark", EXACT)
def test_readings_are_the_table_and_no_version_came_twice_however_pullers_end(
    make_plant: Callable[[str, int], TablePlant], dsn: str, watermark: str, seed: int
) -> None:
    chance = random.Random(f"{watermark} {seed}")
    plant = make_plant(watermark, chance.choice([2, 7, 1000]))
    writers = Writers(dsn, chance)
    for _ in range(WRITES):
        if chance.random() < 0.8:
            writers.step()
            continue
        chance.choice([pull_and_die, pull_and_die, oversleep, pull, pull_and_drain])(plant, chance)
    writers.end()
    start_again(plant, "Worker01")
    for _ in range(3):  # what was open is over, and what it hid is read
        pass_time(plant)
        plant.pull()
    plant.drain()
    with psycopg.connect(dsn) as connection:
        truth = table_rows(connection)
    assert readings_of(plant) == truth
    taken = delivered(plant)
    assert len(taken) == len(set(taken)), "a version came twice"
    assert plant.state().rows_taken == len(taken)
    assert plant.pull() == 0, "nothing changed, and something came"
    writers.close()


def pull(plant: TablePlant, _chance: random.Random) -> None:
    pass_time(plant)
    plant.pull()


def pull_and_drain(plant: TablePlant, chance: random.Random) -> None:
    pull(plant, chance)
    plant.drain()


def pull_and_die(plant: TablePlant, chance: random.Random) -> None:
    """A puller dies, or its step fails; a new life goes on."""
    pass_time(plant)
    with pytest.MonkeyPatch.context() as patch:

        def die() -> None:
            # Not even the turn is given back.
            patch.setattr(sources, "end_source_turn", gone)
            crash()

        point, action = chance.choice(PULLING), chance.choice([die, die, fail])
        with striking(point, action, at_hit=chance.randrange(1, 4)):
            try:
                plant.pull()
            except (CrashError, InjectedError):
                start_again(plant, "Worker01")


def oversleep(plant: TablePlant, chance: random.Random) -> None:
    """A puller sleeps longer than its lease while another one takes over; what it has in hand is refused."""
    pass_time(plant)
    sleeper = plant.place

    def others_go_on() -> None:
        pass_time(plant)
        start_again(plant, "Worker02")
        plant.pull()
        plant.place = sleeper

    point = chance.choice(["pull.claimed", "pull.extracted", "deliver.written"])
    with striking(point, others_go_on) as strike:
        try:
            plant.pull()
        except LeaseLostError:
            assert strike.has_struck


@pytest.mark.parametrize("seed", HISTORIES)
def test_numbers_and_states_are_as_without_faults_however_drainers_end(
    tmp_path: Path, dsn: str, seed: int
) -> None:
    chance = random.Random(seed)
    events = [
        event(number, minutes=chance.randrange(600), tool=chance.choice(["A", "B"])) for number in range(40)
    ]
    poison = event(40, at="yesterday")
    plant = InboxPlant(tmp_path, dsn)
    plant.record(events)
    plant.deliver()
    expected = plant.derived()
    plant.forget_everything()
    with plant.pool.connection() as connection:
        connection.execute("truncate disarray.raw_event, disarray.delivery, disarray.delivery_batch")
    waiting = [*events, poison]
    chance.shuffle(waiting)
    while waiting:
        size = chance.randrange(1, 9)
        plant.record([*waiting[:size], *waiting[: chance.randrange(size)]])
        del waiting[:size]
        settings = replace(SETTINGS, batch_events=chance.randrange(1, 10))
        plant.place = replace(plant.place, inbox_settings=settings)
        drain_and_die(plant, chance)
    settle(plant)
    # A crash counts as an attempt, for one of the events may be to blame: a person asks for all of them again.
    given_up = [
        int(str(number))
        for (number,) in plant.rows("select event_id from disarray.raw_event where state = 'dead'")
    ]
    with plant.pool.connection() as connection:
        raw_events.replay_raw_events(connection, given_up, reason="the host was rebooted", by="ada")
    settle(plant)
    assert plant.states() == {"done": len(events), "dead": 1}
    assert plant.derived() == expected
    [(rows, taken)] = plant.rows(
        "select (select sum(rows) from disarray.delivery), (select sum(rows_taken) from disarray.delivery_batch)"
    )
    assert (rows, taken) == (len(events), len(events))
    plant.pool.close()


def settle(plant: InboxPlant) -> None:
    """Until nothing waits: what cannot be read is given up after three attempts."""
    for _ in range(4):
        pass_time(plant)
        plant.deliver()


def drain_and_die(plant: InboxPlant, chance: random.Random) -> None:
    """A drainer dies at some step, or the step fails, or it oversleeps its lease; or nothing of the kind happens."""

    def others_go_on() -> None:
        former = plant.place
        pass_time(plant)
        start_again(plant, "Worker02")
        plant.deliver()
        plant.place = former

    point = chance.choice(DRAINING)
    # In the transaction of a batch its rows are locked, and nobody else could go on.
    actions = [crash, fail] if point == "deliver.recorded" else [crash, fail, others_go_on]
    with striking(point, chance.choice(actions), at_hit=chance.randrange(1, 4)):
        try:
            plant.deliver()
        except (CrashError, InjectedError):
            start_again(plant, "Worker01")


def gone(*_: object, **__: object) -> None:
    raise DatabaseUnavailableError("whoever was to say so is dead")


def start_again(plant: Plant, name: str) -> None:
    """A new life of a worker: whatever the former one held is free."""
    with plant.pool.connection() as connection:
        holder = instances.register_instance(connection, name)
    plant.place = replace(plant.place, holder=holder)


def pass_time(plant: Plant) -> None:
    """Every lease that nobody renewed is over, and whatever was put off is due."""
    with plant.pool.connection() as connection:
        connection.execute("update disarray.test_clock set ahead = ahead + %s", (timedelta(hours=1),))


def readings_of(plant: TablePlant) -> dict[int, float]:
    [dataset] = plant.datasets.values()
    with plant.pool.connection() as connection:
        return {
            row["id"]: row["watts"]
            for table in readings(connection, plant.place.lake, dataset=dataset, subject_key="TOOL07")
            for row in table.to_pylist()
        }


def delivered(plant: TablePlant) -> list[tuple[int, float]]:
    """Every row version of every delivery that was recorded."""
    uris = [str(uri) for (uri,) in plant.rows("select source_uri from disarray.delivery")]
    rows = (row for uri in uris for row in pq.read_table(Path(unquote(urlsplit(uri).path))).to_pylist())
    return [(row["id"], row["watts"]) for row in rows]
