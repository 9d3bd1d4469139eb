"""Destinations equal what `queries/` answers, whatever arrives, however often it is loaded."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from disarray.control import blacklist
from disarray.control.destinations import decide_destination
from tests.sinks.destination_history import Definition, DestinationHistory
from tests.sinks.destination_plant import DestinationPlant
from tests.worker.deliveries import deliveries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import Databases

LOADS = ("upsert", "append", "replace")
CASES = [*((where, load) for where in ("same", "other") for load in LOADS), ("delta", "replace")]
HISTORIES = int(os.environ.get("DISARRAY_DESTINATION_HISTORIES", "2"))


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
        max_examples=HISTORIES,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 10_000))
    def check(seed: int) -> None:
        name = databases.create(template=template_database)
        definition = Definition(where, load)
        plant = DestinationPlant(
            tmp_path_factory.mktemp("plant"),
            databases.dsn(name),
            description=definition.text(),
            target_dsn=databases.dsn(databases.create()),
        )
        try:
            DestinationHistory(plant, definition, seed).run()
        finally:
            plant.pool.close()
            databases.discard(name)

    check()


@pytest.fixture
def plant(tmp_path: Path, dsn: str, target_dsn: str) -> Iterator[DestinationPlant]:
    built = DestinationPlant(
        tmp_path, dsn, description=Definition("other", "upsert").text(), target_dsn=target_dsn
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
