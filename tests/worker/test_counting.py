"""What a plant counts of itself: every line once, how late files were, and what mending cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import dead_letters, figures, instances
from disarray.control.files import Reason
from disarray.worker.passes.ingest import process_items
from disarray.worker.process.scheduler import Scheduler

if TYPE_CHECKING:
    from disarray.control.figures import Figures
    from tests.plant import Plant

pytestmark = pytest.mark.postgres

START = datetime(2026, 10, 1, tzinfo=UTC)


def report(hour: float, *, rows: int = 60, extra: str = "") -> str:
    lines = [
        f"{(START + timedelta(hours=hour, minutes=row)).isoformat()},{hour},{row % 2}\n"
        for row in range(rows)
    ]
    return "time,watts,good\n" + "".join(lines) + extra


def told(plant: Plant) -> Figures:
    with plant.pool.connection() as connection:
        return figures.sum_figures(connection)


def late_classes(plant: Plant) -> list[int]:
    with plant.pool.connection() as connection:
        return [each.files for each in figures.lateness_histogram(connection)]


def test_every_line_of_arriving_files_is_counted_once(strict_plant: Plant) -> None:
    plant = strict_plant
    plant.ingest(plant.write("TOOL01/0.csv", report(0)))
    plant.ingest(plant.write("TOOL01/9.csv", report(9, extra="\nnonsense,1,1\n")))
    copy = plant.write("TOOL01/9-copy.csv", report(9, extra="\nnonsense,1,1\n"))
    plant.ingest(copy)
    plant.ingest(plant.write("TOOL01/1.csv", report(1)))
    counted = told(plant)
    assert (counted.readings_kept, counted.readings_duplicate, counted.readings_parked) == (120, 60, 60)
    assert counted.readings_rejected == 2
    assert counted.readings_seen == sum(
        (
            counted.readings_kept, counted.readings_duplicate, counted.readings_parked,
            counted.readings_rejected, counted.lines_blank,
        )
    )  # fmt: skip
    assert (counted.files_read, counted.files_parked) == (4, 1)


def test_a_late_file_is_counted_with_what_its_repair_cost(plant: Plant) -> None:
    plant.ingest(plant.write("TOOL01/0.csv", report(0)))
    plant.ingest(plant.write("TOOL01/1.csv", report(1)))
    plant.ingest(plant.write("TOOL01/2.csv", report(2)))
    before = told(plant)
    assert (before.late_readings, before.repair_readings, before.repair_bases) == (0, 0, 0)
    plant.ingest(plant.write("TOOL01/late.csv", report(0.005, rows=6)))
    after = told(plant)
    assert (after.late_readings, after.repair_readings) == (6, 66)
    assert after.repair_bases > 0
    assert after.repair_amplification == 11.0
    # Its last reading lies 2 h 53 min behind the newest; the three others were in order.
    assert late_classes(plant) == [3, 0, 0, 0, 1, 0, 0, 0, 0]


def test_what_is_read_again_on_request_did_not_arrive_again(plant: Plant) -> None:
    path = plant.write("TOOL01/0.csv", report(0))
    plant.ingest(path)
    before = told(plant)
    plant.ingest(path, reason=Reason.REINGEST)
    after = told(plant)
    assert after.commits == before.commits + 1
    assert after.readings_seen == before.readings_seen
    assert sum(late_classes(plant)) == 1


def test_a_paused_worker_takes_nothing_and_goes_on_when_resumed(plant: Plant) -> None:
    with plant.pool.connection() as connection:
        instances.pause_instance(connection, "Worker01", reason="share is moved", by="ada")
    plant.notify(plant.write("TOOL01/0.csv", report(0)))
    assert plant.drain() == []
    with plant.pool.connection() as connection:
        instances.resume_instance(connection, "Worker01", reason="share is back", by="ada")
    assert len(plant.drain()) == 1


def test_what_a_pass_cannot_do_goes_back_together_and_a_lost_subject_costs_no_other(plant: Plant) -> None:
    first, second = (plant.write(f"TOOL0{number}/x.csv", "garbage\n") for number in (1, 2))
    plant.notify(first, second)
    items = Scheduler(plant.place)._claim()
    plant.rows(
        "update disarray.subject_lock set fence = fence + 1000 where subject_key = 'TOOL01' returning 1"
    )
    process_items(plant.place, items, on_step=lambda: None)
    with plant.pool.connection() as connection:
        [dead] = dead_letters.list_dead_letters(connection)
    # Garbage stays garbage: it is given up at once, not tried again.
    assert dead.source_uri == str(second)
    assert plant.rows("select source_uri from disarray.ingest_queue") == [(str(first),)]
