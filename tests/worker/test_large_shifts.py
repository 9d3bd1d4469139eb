"""Shifts that are too large for a commit: readers are told, any worker does them, and the bits are the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist, instances, values
from disarray.worker.process.scheduler import Scheduler
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

START = datetime(2025, 10, 1, tzinfo=UTC)
OPEN_RANGES = "select dataset, range_start from disarray.dirty_range where resolved_at is null order by 1, 2"


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """Two datasets about the same subjects, and a worker that puts every shift off."""
    folders = [DATASET.replace('"inbox"', f'"inbox/{name}"') for name in ("tools", "meters")]
    built = Plant(
        tmp_path, dsn, description=folders[0] + folders[1].replace('name = "tools"', 'name = "meters"')
    )
    built.place = replace(built.place, max_shift_rows=0)
    yield built
    built.pool.close()


def report(hour: int, *, rows: int = 12) -> str:
    lines = [
        f"{(START + timedelta(hours=hour, minutes=5 * row)).isoformat()},{hour * 0.1 + row / 7},{row}\n"
        for row in range(rows)
    ]
    return "time,watts,good\n" + "".join(lines)


def deliver(plant: Plant) -> Path:
    """Some hours of both datasets, and then a late one, claimed and committed but not shifted."""
    hours = [
        plant.write(f"{name}/T1/{hour}.csv", report(hour)) for name in plant.datasets for hour in (0, 4, 9)
    ]
    plant.ingest(*hours)
    assert plant.rows(OPEN_RANGES) == []
    late = plant.write("tools/T1/late.csv", report(2))
    plant.notify(late)
    assert Scheduler(plant.place).process_batch() is not None
    return late


def one_shot(plant: Plant, *paths: Path) -> dict[str, list[tuple[object, ...]]]:
    plant.forget_everything()
    plant.place = replace(plant.place, max_shift_rows=100_000)
    plant.ingest(*paths)
    return plant.derived()


def test_readers_are_told_from_when_on_numbers_are_stale_until_the_shift_is_done(plant: Plant) -> None:
    deliver(plant)
    since = START + timedelta(hours=2)
    assert plant.rows(OPEN_RANGES) == [("tools", since)]
    with plant.pool.connection() as connection:
        assert values.stale_from(connection, "tools", "T1") == since
        assert values.stale_from(connection, "meters", "T1") is None
    plant.drain()
    with plant.pool.connection() as connection:
        assert values.stale_from(connection, "tools", "T1") is None
    shifted = plant.derived()
    assert one_shot(plant, *plant.inbox.glob("*/T1/*.csv")) == shifted


def test_another_worker_does_the_shift_of_one_that_died(
    plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    deliver(plant)
    assert plant.rows("select reason::text, status::text from disarray.ingest_queue") == [
        ("reconcile", "available")
    ]
    # Also where the item itself is lost.
    plant.rows("delete from disarray.ingest_queue returning 1")
    advance_clock(timedelta(hours=1))
    with plant.pool.connection() as connection:
        other = instances.register_instance(connection, "Worker02")
    list(Scheduler(replace(plant.place, holder=other)).drain())
    assert plant.rows(OPEN_RANGES) == []
    shifted = plant.derived()
    assert one_shot(plant, *plant.inbox.glob("*/T1/*.csv")) == shifted


def test_what_a_late_file_restates_is_known_once_the_shift_is_done(plant: Plant) -> None:
    late = deliver(plant)
    another = plant.write("tools/T1/another.csv", report(6))
    plant.notify(another)
    assert plant.rows("select count(*) from disarray.restatement") == [(0,)]
    plant.drain()
    noted = plant.rows(
        """
        select old_int, new_int, changed_from, source_uris
        from disarray.restatement where metric = 'good_total' and delta_int is not null order by restatement_id
        """
    )
    whole = sum(range(12))
    # The second commit shifts what the first one left, and each tells what it changed itself.
    assert noted == [
        (3 * whole, 4 * whole, START + timedelta(hours=2, minutes=55), [str(late)]),
        (4 * whole, 5 * whole, START + timedelta(hours=6, minutes=55), [str(another)]),
    ]


def test_blacklisting_and_allowing_restore_the_bits_though_every_shift_is_put_off(plant: Plant) -> None:
    late = deliver(plant)
    plant.drain()
    with_late = plant.derived()
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(late), "T1", reason="wrong cell", by="ada")
    assert Scheduler(plant.place).process_batch() is not None
    assert plant.rows(OPEN_RANGES) == [("tools", START + timedelta(hours=2))]
    plant.drain()
    without = plant.derived()
    with plant.pool.connection() as connection:
        blacklist.allow_file(connection, str(late), reason="it was right", by="ada")
    plant.drain()
    assert plant.derived() == with_late
    others = [path for path in plant.inbox.glob("*/T1/*.csv") if path != late]
    assert one_shot(plant, *others) == without
