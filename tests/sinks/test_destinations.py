"""Destinations equal what `queries/` answers, whatever arrives, however often it is loaded."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from disarray.control import blacklist
from disarray.control.destinations import decide_destination
from tests.sinks.destination_plant import URL, DestinationPlant
from tests.worker.deliveries import DATASET, deliveries, remove_and_allow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import Databases

LINE = DATASET % {"key": 'key = ["part"]'}
WHAT = {
    "readings": 'readings = "line"',
    "shift": 'rollup = "line.shift"',
    "quarter": 'rollup = "line.quarter"',
    "energy": 'metric = "line.energy"\nevery = "1 h"',
    "parts": 'metric = "line.parts"\nevery = "30 min"',
    "newest": 'newest = "line"',
}
LOADS = ("upsert", "append", "replace")


def described(where: str, load: str) -> str:
    """A destination for each thing that can be loaded."""
    if where == "delta":
        return "".join(
            f'[[destination]]\nname = "{name}"\n{what}\ndelta = "published/{name}"\n'
            for name, what in WHAT.items()
        )
    return "".join(
        f"""
[[destination]]
name = "{name}"
{what}
{where}
table = "published.{name}"
load = "{load}"
create = true
"""
        for name, what in WHAT.items()
    )


CASES = [*((where, load) for where in ("same", "other") for load in LOADS), ("delta", "replace")]
WHERE = {"delta": "delta", "same": 'database = "same"', "other": f'url = {{ env = "{URL}" }}'}


@pytest.mark.parametrize(("where", "load"), CASES)
def test_whatever_arrives_the_target_is_what_is_answered(
    databases: Databases,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
    where: str,
    load: str,
) -> None:
    # Without shrinking: a history is as short as it gets.
    @settings(
        max_examples=2,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 10_000))
    def check(seed: int) -> None:
        name = databases.create(template=template_database)
        plant = DestinationPlant(
            tmp_path_factory.mktemp("plant"),
            databases.dsn(name),
            description=LINE + described(WHERE[where], load),
            target_dsn=databases.dsn(databases.create()),
        )
        try:
            history(plant, seed)
        finally:
            plant.pool.close()
            databases.discard(name)

    check()


def history(plant: DestinationPlant, seed: int) -> None:
    generator = random.Random(seed)
    arrived: list[Path] = []
    for each in deliveries(seed):
        for size in [*each.steps, len(each.text)]:
            path = plant.write(each.name, each.text[:size])
            plant.ingest(path)
            if generator.random() < 0.5:
                plant.load()
                assert plant.differences() == {}
        arrived.append(path)
        if generator.random() < 0.3:
            remove_and_allow(plant, generator.choice(arrived))
    plant.load()
    assert plant.differences() == {}
    assert plant.load() == []


@pytest.fixture
def plant(tmp_path: Path, dsn: str, target_dsn: str) -> Iterator[DestinationPlant]:
    built = DestinationPlant(
        tmp_path, dsn, description=LINE + described(WHERE["other"], "upsert"), target_dsn=target_dsn
    )
    yield built
    built.pool.close()


def test_first_data_is_loaded_whole(plant: DestinationPlant) -> None:
    for each in deliveries(3):
        plant.ingest(plant.write(each.name, each.text))
    reports = plant.load()
    assert all(report.is_whole for report in reports)
    assert plant.differences() == {}


def test_what_somebody_changed_in_the_target_is_put_right_when_it_is_published_again(
    plant: DestinationPlant, target_dsn: str
) -> None:
    for each in deliveries(3):
        plant.ingest(plant.write(each.name, each.text))
    plant.load()
    with psycopg.connect(target_dsn, autocommit=True) as target:
        target.execute("update published.shift set readings = readings + 1")
        target.execute("delete from published.quarter")
    assert set(plant.differences()) == {"shift", "quarter"}
    assert plant.load() == []
    with plant.pool.connection() as connection:
        for name in "shift", "quarter":
            decide_destination(connection, name, "republished", reason="tampered with", by="ada")
    assert {report.destination for report in plant.load()} == {"shift", "quarter"}
    assert plant.differences() == {}


def test_a_late_file_writes_only_the_buckets_that_it_changed(plant: DestinationPlant) -> None:
    header, *lines = deliveries(3)[0].text.splitlines(keepends=True)
    plant.ingest(plant.write("L1/all.csv", header + "".join(lines[1:])))
    plant.load()
    plant.ingest(plant.write("L1/late.csv", header + lines[0]))
    [report] = plant.loaders["quarter"].load_due()
    assert not report.is_whole
    assert (report.rows_loaded, report.rows_deleted) == (1, 0)


def test_a_reading_after_a_long_silence_brings_the_instants_of_the_silence_and_takes_them_with_it(
    plant: DestinationPlant,
) -> None:
    header, line, *_ = deliveries(3)[0].text.splitlines(keepends=True)
    time, rest = line.split(",", 1)
    before, after = datetime.fromisoformat(time), datetime.fromisoformat(time) + timedelta(hours=12)
    plant.ingest(plant.write("L1/before.csv", f"{header}{before.isoformat()},{rest}"))
    plant.load()
    late = plant.write("L1/after.csv", f"{header}{after.isoformat()},{rest}")
    plant.ingest(late)
    plant.load()
    assert plant.differences() == {}
    assert len(plant.target_rows(plant.loaders["energy"].destination)) > 12
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(late), "L1", reason="a test", by="ada")
    plant.drain()
    plant.load()
    assert plant.differences() == {}
    assert len(plant.target_rows(plant.loaders["energy"].destination)) == 1
