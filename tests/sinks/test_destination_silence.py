"""A loader into a bucket ends at any of its writes: done or not, the next life puts right what it left."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from disarray.control import instances
from disarray.model.description.destination import DeltaTarget
from disarray.sinks.destination_delta_store import open_store
from tests.forked import begin_life
from tests.sinks.careless_store import Silence, careless_store, is_silent, silence
from tests.sinks.destination_history import LINE
from tests.sinks.destination_plant import DestinationPlant
from tests.sinks.loading_process import load_with_short_log
from tests.sinks.object_store import ACCESS, SECRET
from tests.worker.deliveries import deliveries

if TYPE_CHECKING:
    from pathlib import Path

KEYS = {ACCESS: "any", SECRET: "any"}
QUARTER = """
[[destination]]
name = "quarter"
rollup = "line.quarter"
delta = "s3://plant/quarter"
endpoint = "%s"
access_key = { env = "%s" }
secret_key = { env = "%s" }
"""
# To know that the server may be careful by two puts and a delete, then rows, the version, a checkpoint and a name of
# it, and an entry of the log that is cleared.
FEWEST_WRITES = 8
MOST_SECONDS = 120


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind is Silence.LOST else pytest.mark.long) for kind in Silence],
)
def test_a_loader_that_ends_at_any_write_leaves_what_the_next_life_puts_right(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch, kind: Silence
) -> None:
    for variable, value in KEYS.items():
        monkeypatch.setenv(variable, value)
    with careless_store(is_careful=True, is_alone=True) as endpoint:
        description = LINE + QUARTER % (endpoint, ACCESS, SECRET)
        plant = DestinationPlant(tmp_path, dsn, description=description, target_dsn=dsn)
        with closing(plant.pool):
            plant.ingest(plant.write("L1/0.csv", deliveries(0)[0].text))
            plant.load()
            target = plant.loaders["quarter"].destination.target
            assert isinstance(target, DeltaTarget)
            store = open_store(target)
            store.open().alter.set_table_properties({"delta.checkpointInterval": "1"})
            number, is_ended = 0, True
            while is_ended:
                number += 1
                plant.ingest(plant.write(f"L1/{number}.csv", deliveries(number)[0].text))
                silence(endpoint, kind, number)
                is_ended = ends_at_silence(plant, endpoint, kind)
                with plant.pool.connection() as connection:
                    # Whoever met its own version, and took it for another's, has put its subject off for a moment.
                    connection.execute("update disarray.test_clock set ahead = ahead + interval '1 min'")
                    plant.place = replace(
                        plant.place, holder=instances.register_instance(connection, "Loader")
                    )
                plant.loaders = plant.make_loaders()
                plant.load()
                assert plant.differences() == {}, f"after write {number}"
                rows = store.open().to_pyarrow_table().num_rows
                assert rows == len(plant.target_rows(plant.loaders["quarter"].destination))
            assert number > FEWEST_WRITES
            silence(endpoint, kind, 0)
            # To this server all is old: what the dead had written, and no version names, is cleared away.
            assert plant.loaders["quarter"].vacuum() > 0 or kind is Silence.CUT
            assert plant.differences() == {}


def ends_at_silence(plant: DestinationPlant, endpoint: str, kind: Silence) -> bool:
    """One life of a loader, killed where it gets no answer; whether it came to that."""
    life = begin_life(load_with_short_log, plant.dsn, plant.root, **KEYS)
    end = time.monotonic() + MOST_SECONDS
    while life.poll() is None and (kind is Silence.CUT or not is_silent(endpoint)):
        assert time.monotonic() < end, "the loader goes on and on"
        time.sleep(0.01)
    life.kill()
    return is_silent(endpoint)
