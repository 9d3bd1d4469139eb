"""A process that delivers is killed at every step: no row is lost, none comes twice."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from disarray.worker.upkeep.delivery_upkeep import sweep_landing
from tests.forked import live
from tests.sources.delivering_process import deliver_all

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sources.conftest import DeliveredPlant

DELIVERIES = ("deliver.written", "deliver.recorded", "deliver.committed")


@pytest.mark.parametrize("point", DELIVERIES)
def test_a_killed_delivery_is_done_once(plant: DeliveredPlant, dsn: str, tmp_path: Path, point: str) -> None:
    log = tmp_path / "failpoints.log"
    for hit in (1, 2):  # the first attempt, and the retry
        armed = {"DISARRAY_FAILPOINTS": f"{point}=kill@{hit}", "DISARRAY_FAILPOINT_LOG": str(log)}
        assert live(deliver_all, dsn, tmp_path, **armed) == -signal.SIGKILL
    assert log.read_text().count(f"{point} kill") == 2
    assert live(deliver_all, dsn, tmp_path) == 0
    plant.drain()
    assert plant.total() == 6.0
    [(taken, batches)] = plant.rows("select sum(rows_taken), count(*) from disarray.delivery_batch")
    assert (taken, batches) == (3, 3)
    [(seen,)] = plant.rows("select rows_seen from disarray.source_state")
    assert seen == 3
    long_ago = time.time() - 3 * 86_400
    for path in plant.landing.root.rglob("*.parquet"):
        os.utime(path, (long_ago, long_ago))
    with plant.pool.connection() as connection:
        orphans = sweep_landing(connection, plant.place)
    assert len(orphans) == (0 if point == "deliver.committed" else 2)
    assert len(list(plant.landing.root.rglob("*.parquet"))) == 3
