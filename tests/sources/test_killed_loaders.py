"""A loader is killed between every two steps, and again when it tries again: every row of the table comes once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.forked import live
from tests.sources.loaded_plant import LoadedPlant
from tests.sources.table_history import make_table, reader_url, table_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOADERS = (
    "load.planned",
    "load.begun",
    "load.cut",
    "load.claimed",
    "load.extracted",
    "load.read",
    "load.ended",
)
# Where a step is done once for a load, the retry does not come to it any more.
ONCE = ("load.begun", "load.ended")
# At the second chunk of the first life and at the first of the next, so that some are done and some are not.
POINTS = (*LOADERS, "deliver.written", "deliver.recorded", "deliver.committed")


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory, shared_dsn: str) -> Iterator[LoadedPlant]:
    """One plant for all points; seven rows in chunks of two, and a row behind the bound."""
    make_table(shared_dsn)
    built = LoadedPlant(tmp_path_factory.mktemp("plant"), shared_dsn, watermark="timestamp", limit=2)
    built.fill(7)
    yield built
    built.pool.close()


def load(dsn: str, root: Path) -> None:
    """A life of a process that pulls and loads."""
    plant = LoadedPlant(root, dsn, watermark="timestamp", limit=2)
    plant.pull()
    plant.load_to_the_end()
    plant.drain()
    plant.pool.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_load_that_is_killed_twice_delivers_every_row_once(
    plant: LoadedPlant, shared_dsn: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HISTORIAN_URL", reader_url(shared_dsn))
    plant.forget_everything()
    plant.execute(
        "truncate disarray.source_state, disarray.source_load, disarray.source_chunk, disarray.delivery, "
        "disarray.delivery_batch"
    )
    hits = (1, 1) if point.startswith("load.") and point not in ("load.extracted", "load.claimed") else (2, 1)
    armed = ({"DISARRAY_FAILPOINTS": f"{point}=kill@{hit}"} for hit in hits)
    kills = [live(load, shared_dsn, plant.root, **each) == -signal.SIGKILL for each in armed]
    assert kills == [True, point not in ONCE]
    assert live(load, shared_dsn, plant.root) == 0
    with psycopg.connect(shared_dsn) as admin:
        assert sorted(plant.delivered()) == sorted(table_rows(admin).items())
    record = plant.load_record()
    assert (record.state, record.rows_taken) == ("done", 7)
    assert sum(plant.total(f"TOOL0{number}") for number in range(3)) == sum(range(1, 8))
