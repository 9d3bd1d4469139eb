"""A puller is killed between every two steps, and again when it tries again: no row is lost, none comes twice."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from disarray.worker.upkeep.delivery_upkeep import sweep_landing
from tests.forked import live
from tests.sources.table_history import make_table, reader_url
from tests.sources.table_plant import TablePlant, pull_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PULLERS = ("pull.claimed", "pull.extracted", "pull.ended")
STEPS = (*PULLERS[:2], "deliver.written", "deliver.recorded", "deliver.committed", PULLERS[2])
ROWS = 6  # three batches


@pytest.fixture
def plant(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TablePlant]:
    monkeypatch.setenv("HISTORIAN_URL", reader_url(dsn))
    make_table(dsn)
    built = TablePlant(tmp_path, dsn, limit=2)
    yield built
    built.pool.close()


@pytest.mark.parametrize("point", STEPS)
def test_a_killed_puller_delivers_every_row_once(
    plant: TablePlant, dsn: str, tmp_path: Path, point: str
) -> None:
    log = tmp_path / "failpoints.log"
    plant.insert(*((number, f"2026-03-02T12:0{number}Z", float(number)) for number in range(ROWS)))
    # The first attempt, and the retry, a step later where there is one.
    for hit in (1, 1 if point in ("pull.claimed", "pull.ended") else 2):
        armed = {"DISARRAY_FAILPOINTS": f"{point}=kill@{hit}", "DISARRAY_FAILPOINT_LOG": str(log)}
        assert live(pull_all, dsn, tmp_path, **armed) == -signal.SIGKILL
    assert log.read_text().count(f"{point} kill") == 2
    assert live(pull_all, dsn, tmp_path) == 0
    plant.drain()
    assert plant.total() == sum(range(ROWS))
    [(taken, rows)] = plant.rows(
        "select (select sum(rows_taken) from disarray.delivery_batch), (select sum(rows) from disarray.delivery)"
    )
    assert (taken, rows, plant.state().rows_taken) == (ROWS, ROWS, ROWS)
    long_ago = time.time() - 3 * 86_400
    for path in (tmp_path / "landing").rglob("*.parquet"):
        os.utime(path, (long_ago, long_ago))
    with plant.pool.connection() as connection:
        sweep_landing(connection, plant.place)
    named = plant.rows("select count(*) from disarray.delivery")
    assert len(list((tmp_path / "landing").rglob("*.parquet"))) == named[0][0]
    derived = plant.derived()
    plant.forget_everything()
    plant.execute("truncate disarray.source_state, disarray.delivery, disarray.delivery_batch")
    assert plant.pull() == ROWS
    plant.drain()
    assert plant.derived() == derived
