"""Files that are not there, or cannot be read, at the moment at which a worker looks: nothing is lost for that."""

from __future__ import annotations

import errno
import os
import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import dead_letters
from tests.plant import Plant
from tests.reading_lines import HEADER
from tests.worker.deliveries import DATASET, rows
from tests.worker.soundness import assert_all_holds, assert_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    built = Plant(tmp_path, dsn, description=DATASET % {"key": ""})
    yield built
    built.pool.close()


def text(seed: int, count: int = 30) -> str:
    return HEADER + "".join(rows(random.Random(seed), count))


def errors(plant: Plant) -> list[tuple[object, ...]]:
    return plant.rows("select status::text, last_error from disarray.file_info where last_error is not null")


def test_a_file_that_is_announced_before_it_is_visible_is_taken_in_later(
    plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    here = plant.write("L1/here.csv", text(1))
    coming = plant.inbox / "L1" / "coming.csv"
    plant.ingest(here, coming)
    assert errors(plant) == [("pending", "the file is gone; what was read of it stays")]
    assert_sound(plant, [here])
    coming.write_text(text(2))
    advance_clock(timedelta(minutes=2))
    plant.drain()
    assert errors(plant) == []
    assert_sound(plant, [here, coming])


def test_a_file_that_vanished_before_it_was_read_takes_nothing_away_and_can_come_back(
    plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    path, other = plant.write("L1/a.csv", text(1)), plant.write("L1/b.csv", text(2))
    plant.ingest(path, other)
    before = plant.derived()
    grown = path.read_text() + text(3).partition("\n")[2]
    path.unlink()
    plant.notify(path)
    for _ in range(5):
        plant.drain()
        advance_clock(timedelta(hours=3))
    assert errors(plant) == [("failed", "the file is gone; what was read of it stays")]
    assert plant.derived() == before
    assert_all_holds(plant)

    path.write_text(grown)
    with plant.pool.connection() as connection:
        dead_letters.retry_dead_letters(connection, [str(path)], reason="it is back", by="tester")
    plant.drain()
    assert_sound(plant, [path, other])


def test_a_disk_that_cannot_be_read_fails_one_file_for_the_moment(
    plant: Plant, advance_clock: Callable[[timedelta], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = plant.write("L1/bad.csv", text(1)), plant.write("L1/good.csv", text(2))
    inode = bad.stat().st_ino
    read = os.pread

    def fail_on_one(descriptor: int, count: int, offset: int) -> bytes:
        if os.fstat(descriptor).st_ino == inode:
            raise OSError(errno.EIO, "Input/output error")
        return read(descriptor, count, offset)

    with monkeypatch.context() as broken:
        broken.setattr(os, "pread", fail_on_one)
        plant.ingest(bad, good)
    told = "the file cannot be read: Input/output error; what was read of it stays, and it is tried again"
    assert errors(plant) == [("pending", told)]
    assert_sound(plant, [good])
    advance_clock(timedelta(minutes=2))
    plant.drain()
    assert_sound(plant, [bad, good])
