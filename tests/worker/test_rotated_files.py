"""A file that is replaced by a later one about another subject: decisions about it hold for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist, definitions, quarantine
from disarray.worker.process.scheduler import Scheduler
from tests.plant import Plant
from tests.worker.soundness import assert_all_holds
from tests.worker.test_moves import ALL, announce, cell, is_stale, totals, waiting_parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

WITH_HORIZON = ALL.replace("key = []", 'key = []\nhorizon = "5 h"')


@pytest.fixture
def moving(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant of cells in which what is more than five hours late is parked."""
    built = Plant(tmp_path, dsn, description=WITH_HORIZON)
    yield built
    built.pool.close()


def rotated(plant: Plant) -> Path:
    """A file about one cell that was replaced by a later one about another: what both say came too late."""
    for serial, hour in (("CELL-A", 30), ("CELL-B", 60)):
        announce(plant, plant.write(f"cells/{serial}.txt", cell(serial, 1, hour=hour)), serial)
    path = plant.write("cells/log.txt", cell("CELL-A", 10, 20, hour=3))
    announce(plant, path, "CELL-A")
    path.write_text(cell("CELL-B", 100, 200, hour=9))
    announce(plant, path, "CELL-A")
    return path


def statuses(plant: Plant, path: Path) -> list[tuple[object, ...]]:
    return plant.rows(f"select status::text from disarray.file_info where source_uri = '{path}'")


def test_a_release_of_a_rotated_file_is_about_the_readings_of_both_cells(moving: Plant) -> None:
    path = rotated(moving)
    with moving.pool.connection() as connection:
        waiting = quarantine.list_quarantine(connection)
        assert {(each.subject_key, each.readings) for each in waiting} == {("CELL-A", 2), ("CELL-B", 2)}
        quarantine.release_file(connection, str(path), reason="the clock was right", by="ada")
        assert is_stale(moving, "cells", "CELL-A")
    moving.drain()
    assert totals(moving) == {("cells", "CELL-A"): 31, ("cells", "CELL-B"): 301}
    assert (waiting_parts(moving), statuses(moving, path)) == ([], [("processed",)])
    assert moving.rows("select * from disarray.moving_file") == []
    assert not is_stale(moving, "cells", "CELL-A")
    assert_all_holds(moving)


def test_what_waits_of_the_former_cell_alone_is_released_while_the_file_is_about_another(
    moving: Plant,
) -> None:
    path = rotated(moving)
    path.write_text(cell("CELL-B", 100, 200, 400, hour=61))
    announce(moving, path, "CELL-B")
    with moving.pool.connection() as connection:
        quarantine.release_file(connection, str(path), reason="the clock was right", by="ada")
        # A notification that comes before a worker does takes nothing of the decision with it.
    announce(moving, path, "CELL-B")
    assert totals(moving) == {("cells", "CELL-A"): 31, ("cells", "CELL-B"): 1001}
    assert (waiting_parts(moving), statuses(moving, path)) == ([], [("processed",)])
    assert_all_holds(moving)


def test_what_waits_of_a_former_cell_is_not_lost_with_a_rebuild_that_reads_files(moving: Plant) -> None:
    path = rotated(moving)
    moving.redefine(WITH_HORIZON.replace('segment = "1 h"', 'segment = "2 h"'))
    [message] = {message for each in moving.drain() for message in each.failed.values()}
    assert f"{path} (an earlier generation of it is gone)" in message
    assert waiting_parts(moving) == ["readings", "readings"]
    with moving.pool.connection() as connection:
        quarantine.reject_file(connection, str(path), reason="the clock was wrong", by="ada")
        definitions.queue_rebuilds(connection, dataset=None, subject_key=None)
    assert [message for each in moving.drain() for message in each.failed.values()] == []
    assert totals(moving) == {("cells", "CELL-A"): 1, ("cells", "CELL-B"): 1}


def test_a_rejection_of_a_rotated_file_is_about_the_readings_of_both_cells(moving: Plant) -> None:
    path = rotated(moving)
    with moving.pool.connection() as connection:
        quarantine.release_file(connection, str(path), reason="the clock was right", by="ada")
        assert quarantine.reject_file(connection, str(path), reason="it was not", by="bob") == 4
    moving.drain()
    assert totals(moving) == {("cells", "CELL-A"): 1, ("cells", "CELL-B"): 1}
    assert (waiting_parts(moving), statuses(moving, path)) == ([], [("processed",)])
    assert_all_holds(moving)


def decide(plant: Plant, path: Path, *, is_allowed: bool) -> None:
    with plant.pool.connection() as connection:
        if is_allowed:
            blacklist.allow_file(connection, str(path), reason="no doubt", by="ada")
        else:
            blacklist.blacklist_file(connection, str(path), "CELL-B", reason="doubt", by="ada")


@pytest.mark.parametrize("batches", range(4))
@pytest.mark.parametrize("is_released", [True, False])
def test_a_rotated_file_that_is_allowed_again_says_what_it_said_of_both_cells(
    moving: Plant, batches: int, is_released: bool
) -> None:
    path = rotated(moving)
    if is_released:
        with moving.pool.connection() as connection:
            quarantine.release_file(connection, str(path), reason="the clock was right", by="ada")
        moving.drain()
    path.unlink()
    before = totals(moving), moving.rows("select * from disarray.list_quarantine()")
    for is_allowed in (False, True, False, True):
        # Whatever is half done stays half done until the next decision.
        decide(moving, path, is_allowed=is_allowed)
        for _ in range(batches):
            Scheduler(moving.place).process_batch()
    moving.drain()
    assert (totals(moving), moving.rows("select * from disarray.list_quarantine()")) == before
    assert moving.rows("select * from disarray.moving_file") == []
    assert_all_holds(moving)
    decide(moving, path, is_allowed=False)
    moving.drain()
    assert totals(moving) == {("cells", "CELL-A"): 1, ("cells", "CELL-B"): 1}
    assert_all_holds(moving)
