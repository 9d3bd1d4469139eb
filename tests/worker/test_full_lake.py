"""A lake without room: nothing is lost, nobody is blamed, other work goes on, and all is done once there is room."""

from __future__ import annotations

import random
import resource
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist
from disarray.store.lake import Lake
from tests.disks import grow_disk, tiny_disk
from tests.plant import Plant
from tests.reading_lines import HEADER
from tests.worker.deliveries import DATASET, rows
from tests.worker.soundness import assert_all_holds, assert_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

LARGE = 4000


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant whose lake is a disk with room for a few small files."""
    with tiny_disk(tmp_path / "lake", size="40k"):
        built = Plant(tmp_path, dsn, description=DATASET % {"key": ""})
        yield built
        built.pool.close()


def arrive(plant: Plant, seed: int, *, lines: int, subject: str = "L1") -> Path:
    return plant.write(f"{subject}/{seed}.csv", HEADER + "".join(rows(random.Random(seed), lines)))


def waiting(plant: Plant) -> list[tuple[object, ...]]:
    return plant.rows("select source_uri, retry_count, crash_count, status from disarray.ingest_queue")


def test_files_wait_without_being_blamed_and_are_taken_in_once_there_is_room(
    plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    small = arrive(plant, 1, lines=20)
    plant.ingest(small)
    before = plant.derived()
    large = [arrive(plant, seed, lines=LARGE, subject=f"L{seed}") for seed in (2, 3)]
    for _ in range(8):  # more often than any file is tried
        [report, *_] = plant.ingest(*large)
        assert all("No space left on device" in message for message in report.failed.values())
        assert [row[1:] for row in waiting(plant)] == [(0, 0, "available")] * 2
        advance_clock(timedelta(minutes=2))
    assert plant.derived() == before
    assert plant.rows("select count(*) from disarray.file_info where status = 'failed'") == [(0,)]
    assert_all_holds(plant)

    grow_disk(plant.place.lake.root, size="64m")
    plant.drain()
    assert waiting(plant) == []
    assert_sound(plant, [small, *large])


def test_what_needs_no_room_goes_on(plant: Plant) -> None:
    refused, kept, same = (arrive(plant, seed, lines=20) for seed in (1, 2, 3))
    plant.ingest(refused, kept, same)
    large = arrive(plant, 4, lines=LARGE)
    plant.ingest(large)
    [queued] = waiting(plant)
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(refused), "L1", reason="a test", by="tester")
    plant.ingest(same)
    assert waiting(plant) == [queued]
    assert plant.rows("select status::text from disarray.file_info where source_uri like '%/1.csv'") == [
        ("blacklisted",)
    ]
    assert_all_holds(plant)


def test_the_error_says_what_happened_and_what_to_do(plant: Plant) -> None:
    large = arrive(plant, 2, lines=LARGE)
    [report] = plant.ingest(large)
    [message] = report.failed.values()
    assert message.startswith(f"the lake cannot be written: {plant.place.lake.root}")
    assert message.endswith(
        "No space left on device. Nothing was committed, and what is stored is untouched. "
        "Free space or mend the lake; what waits for it is tried again by itself"
    )
    [(error,)] = plant.rows("select last_error from disarray.file_info")
    assert error == message
    left = [path for path in plant.place.lake.root.rglob("*") if path.is_file()]
    assert left == [], "half a file is left in the lake"


def test_a_file_that_may_grow_no_further_is_waited_for_on_any_disk(
    tmp_path: Path, dsn: str, advance_clock: Callable[[timedelta], None]
) -> None:
    plant = Plant(tmp_path, dsn, description=DATASET % {"key": ""})
    path = arrive(plant, 1, lines=LARGE)
    with files_of_at_most(8_192):
        [report] = plant.ingest(path)
    assert ["File too large" in message for message in report.failed.values()] == [True]
    advance_clock(timedelta(minutes=2))
    plant.drain()
    assert_sound(plant, [path])
    plant.pool.close()


def test_rows_on_their_way_into_a_table_wait_for_room_as_well(
    tmp_path: Path, dsn: str, advance_clock: Callable[[timedelta], None]
) -> None:
    plant = Plant(tmp_path, dsn, description=DATASET % {"key": 'store = "timescale"'})
    path = arrive(plant, 1, lines=LARGE)
    plant.notify(path)
    for _ in range(6):
        with files_of_at_most(200_000):  # enough for fragments, not for rows that are not packed
            [report] = plant.drain()
        assert ["/scratch-" in message for message in report.failed.values()] == [True]
        assert [row[1:] for row in waiting(plant)] == [(0, 0, "available")]
        advance_clock(timedelta(minutes=2))
    plant.drain()
    assert_sound(plant, [path])
    plant.pool.close()


@contextmanager
def files_of_at_most(count: int) -> Iterator[None]:
    """Needs no root: whoever writes more bytes than that into one file is refused."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_lake_that_takes_no_folder_is_waited_for_as_well(
    plant: Plant, tmp_path: Path, advance_clock: Callable[[timedelta], None]
) -> None:
    blocked = tmp_path / "in the way"
    blocked.write_text("")
    path = arrive(plant, 1, lines=20)
    object.__setattr__(plant.place, "lake", Lake(blocked / "lake"))
    [report] = plant.ingest(path)
    assert [message for message in report.failed.values() if "the lake cannot be written" in message]
    assert [row[1:] for row in waiting(plant)] == [(0, 0, "available")]
    blocked.unlink()
    advance_clock(timedelta(minutes=2))
    plant.drain()
    assert_sound(plant, [path])
