"""Files with the same bytes share what is kept of them, and stay files of their own all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist, quarantine
from disarray.control.files import Reason
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

OPEN = "time,watts,good\n2026-10-01T00:00:00Z,1.0,1\n2026-10-01T00:01:00Z,2.0,10"


@pytest.fixture
def plain_plant(tmp_path: Path, dsn: str, request: pytest.FixtureRequest) -> Iterator[Plant]:
    """A small plant whose readings are told apart as the test says."""
    built = Plant(tmp_path, dsn, description=DATASET.replace("key = []", f'key = "{request.param}"'))
    yield built
    built.pool.close()


def good_total(plant: Plant) -> list[tuple[object, ...]]:
    return plant.rows("select sum(total_int)::int from disarray.segment_metric where metric = 'good_total'")


def test_a_copy_that_goes_quiet_before_its_original_keeps_its_last_line(plant: Plant) -> None:
    original = plant.write("T1/a.csv", OPEN)
    plant.ingest(original)
    assert good_total(plant) == [(1,)]
    moved = plant.write("T1/b.csv", OPEN)
    original.unlink()
    plant.ingest(moved, reason=Reason.QUIET)
    assert good_total(plant) == [(11,)]


@pytest.mark.parametrize("plain_plant", ["content"], indirect=True)
@pytest.mark.parametrize("grows", ["a", "z"])
def test_a_copy_keeps_its_last_line_when_its_original_completes_it_otherwise(
    plain_plant: Plant, grows: str
) -> None:
    plant = plain_plant
    paths = {name: plant.write(f"T1/{name}.csv", OPEN) for name in ("a", "z")}
    plant.ingest(*paths.values(), reason=Reason.QUIET)
    assert good_total(plant) == [(11,)]
    paths[grows].write_text(OPEN + "0\n")
    plant.ingest(paths[grows])
    assert good_total(plant) == [(111,)]


@pytest.mark.parametrize("plain_plant", ["none", "content"], indirect=True)
@pytest.mark.parametrize("again", ["a", "z"])
def test_a_copy_that_is_read_again_counts_once(plain_plant: Plant, again: str) -> None:
    plant = plain_plant
    paths = {name: plant.write(f"T1/{name}.csv", OPEN + "\n") for name in ("a", "z")}
    plant.ingest(*paths.values())
    before = plant.derived()
    plant.ingest(paths[again], reason=Reason.REINGEST)
    assert plant.derived() == before
    assert good_total(plant) == [(11,)]


def test_a_copy_of_what_was_rejected_comes_up_for_review_itself(strict_plant: Plant) -> None:
    new = "time,watts,good\n2026-10-02T00:00:00Z,1.0,1\n"
    strict_plant.ingest(strict_plant.write("T1/new.csv", new))
    late = strict_plant.write("T1/late.csv", OPEN + "\n")
    strict_plant.ingest(late)
    with strict_plant.pool.connection() as connection:
        assert quarantine.reject_file(connection, str(late), reason="another cell", by="ada") == 2
    copy = strict_plant.write("T1/copy.csv", OPEN + "\n")
    strict_plant.ingest(copy)
    with strict_plant.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
        assert (waiting.source_uri, waiting.readings) == (str(copy), 2)
        quarantine.release_file(connection, str(copy), reason="it was this one", by="ada")
    strict_plant.drain()
    assert good_total(strict_plant) == [(12,)]


def test_a_blacklisted_original_leaves_its_copy_the_readings_of_its_newest_generation(plant: Plant) -> None:
    later = OPEN.replace("2026-10-01", "2026-10-05") + "\n"
    path = plant.write("T1/a.csv", OPEN + "\n")
    plant.ingest(path)
    path.write_text(later)
    plant.ingest(path)
    copy = plant.write("T1/b.csv", later)
    plant.ingest(copy)
    assert good_total(plant) == [(22,)]
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(path), "T1", reason="only one of them", by="ada")
    plant.drain()
    assert good_total(plant) == [(11,)]
