"""The whole path against the independent recompute: random arrivals of many subjects, and real instrument files."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from disarray.engine.verification.verify import verify
from tests import arrivals, real_plant
from tests.arrivals import Arrivals
from tests.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.engine.runner import SparkRunner
    from disarray.engine.verification.verification_report import VerificationReport

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def description() -> str:
    """The datasets of the plant."""
    # Every kind of key, both kinds of horizon; Spark takes its time to plan for each dataset.
    return "".join(arrivals.DATASETS[name] for name in ("unkeyed", "strict", "replaced"))


@pytest.fixture
def plant(tmp_path: Path, dsn: str, description: str) -> Iterator[Plant]:
    """A plant with one worker, whose kernels run in this process unless the test says otherwise."""
    built = Plant(tmp_path, dsn, description=description)
    yield built
    built.pool.close()


def verified(plant: Plant, runner: SparkRunner) -> VerificationReport:
    with plant.pool.connection() as connection:
        return verify(connection, runner, plant.datasets, lake=plant.place.lake)


@pytest.mark.timeout(900)
def test_random_arrivals_are_what_the_recompute_finds_also_when_spark_did_the_work(
    plant: Plant, spark_runner: SparkRunner
) -> None:
    histories = 0
    for number in range(7):
        if number == 6:
            plant.place = replace(plant.place, runner=spark_runner)
        world = Arrivals(plant, random.Random(9000 + number), prefix=f"W{number}-")
        world.run()
        world.settle()
        histories += world.histories
    assert plant.rows("select count(*) > 0 from disarray.fragment where state = 'rejected'") == [(True,)]
    found = verified(plant, spark_runner)
    assert found.differences == []
    assert found.not_compared == []
    assert {each.reason for each in found.unproven} <= {
        "replaced by a later generation of the file; its readings stay",
        "the source changed since it was taken in",
    }
    assert histories > 15


@pytest.mark.real_data
@pytest.mark.timeout(900)
@pytest.mark.parametrize("description", [real_plant.DESCRIPTION], ids=["instruments"])
def test_real_files_in_pieces_and_shuffled_are_what_the_recompute_finds(
    plant: Plant, spark_runner: SparkRunner, real_data: Path
) -> None:
    source = random.Random(11)
    real_plant.ingest_shuffled(plant, real_plant.write_pieces(plant, real_data), source, batches=3)
    header = real_plant.quake_header(real_data)
    by_net: dict[str, list[str]] = {}
    for net, _, line in real_plant.quakes_by_update(real_data):
        by_net.setdefault(net, []).append(line)
    for part in range(2):
        # Every second line of each network, in the order of updates: the halves interleave in time.
        real_plant.ingest(
            plant,
            [
                real_plant.put(plant, f"quakes/{net}/{part}.csv", (header + "".join(lines[part::2])).encode())
                for net, lines in by_net.items()
                if lines[part::2]
            ],
        )
    found = verified(plant, spark_runner)
    assert found.differences == []
    assert found.is_identical()
    assert found.readings > 10_134 + 11_669 + 4_061 + 9_065 + 8_784
