"""The worker's loop: a pass that gets on keeps its leases."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import claims, files
from disarray.engine.runner import InProcessRunner
from disarray.errors import DatabaseUnavailableError, HandedBackError, LeaseLostError
from disarray.worker.passes.ingest import _side_by_side, process_items
from disarray.worker.process.heartbeat import Progress
from disarray.worker.process.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.worker.passes.report import CommittedPlan
    from tests.plant import Plant

pytestmark = pytest.mark.postgres


def test_a_pass_tells_of_reading_planning_scanning_and_every_commit(plant: Plant) -> None:
    row = "time,watts,good\n2026-10-01T00:00:00Z,1.0,1\n"
    plant.notify(plant.write("T1/a.csv", row), plant.write("T2/a.csv", row))
    steps: list[None] = []
    with plant.pool.connection() as connection:
        items = claims.fetch_items(connection, plant.place.holder, claims.FetchPolicy(max_subjects=2))
    process_items(plant.place, items, on_step=lambda: steps.append(None))
    assert len(steps) == 3 + 2


def test_a_job_whose_tasks_end_is_not_stalled_and_one_whose_tasks_do_not_is() -> None:
    ended = iter([1, 2, 2, 2])
    progress = Progress(stalled_after_seconds=0.05, pulse=lambda: next(ended))
    time.sleep(0.06)
    assert not progress.has_stalled()
    time.sleep(0.06)
    assert not progress.has_stalled()
    time.sleep(0.06)
    assert progress.has_stalled()


def test_an_engine_that_does_not_answer_does_not_get_on() -> None:
    def no_answer() -> object:
        raise ConnectionRefusedError

    progress = Progress(stalled_after_seconds=0.05, pulse=no_answer)
    time.sleep(0.06)
    assert progress.has_stalled()


def test_a_commit_whose_lease_is_gone_holds_up_no_other_one() -> None:
    def lost() -> list[CommittedPlan]:
        raise LeaseLostError("taken over")

    assert _side_by_side([list, lost, list], lambda: None) == [[], None, []]


def test_after_a_commit_that_could_not_be_made_none_is_begun() -> None:
    begun = []

    def away() -> list[CommittedPlan]:
        begun.append(1)
        raise DatabaseUnavailableError("away")

    with pytest.raises(DatabaseUnavailableError):
        _side_by_side([away] * 100, lambda: None)
    assert len(begun) < 10


def test_a_worker_that_could_not_hand_back_before_its_lease_ended_goes_on_by_itself(
    plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    plant.notify(plant.write("T1/a.csv", "time,watts,good\n2026-10-01T00:00:00Z,1.0,1\n"))
    with plant.pool.connection() as connection:
        # Nothing more is heard of this claim: the database was away when it was to be handed back.
        assert claims.fetch_items(connection, plant.place.holder, claims.FetchPolicy(lease_seconds=10))
    advance_clock(timedelta(seconds=11))
    report = Scheduler(plant.place).process_batch()
    assert report is not None
    assert len(report.completed) == 1


def test_a_hurried_pass_hands_its_items_back_and_counts_no_attempt(plant: Plant) -> None:
    plant.notify(plant.write("T1/a.csv", "time,watts,good\n2026-10-01T00:00:00Z,1.0,1\n"))
    scheduler = Scheduler(plant.place)
    scheduler.hurry()
    with pytest.raises(HandedBackError):
        scheduler.process_batch()
    assert plant.rows("select status::text, retry_count from disarray.ingest_queue") == [("available", 0)]
    assert plant.rows("select count(*) from disarray.subject_lock") == [(0,)]


def test_a_runner_that_was_told_to_break_off_begins_no_further_task() -> None:
    runner = InProcessRunner()
    assert runner.run(abs, [-1, -2]) == [1, 2]
    assert runner.pulse() == 2
    runner.cancel()
    with pytest.raises(HandedBackError):
        runner.run(abs, [-3])


@pytest.mark.parametrize(
    ("size", "batches"), [(60, [3, 9]), (10_000_000, [3, 3, 3, 3]), (None, [3, 3, 3, 3])]
)
def test_after_a_full_batch_of_small_files_the_next_one_takes_more(
    plant: Plant, size: int | None, batches: list[int]
) -> None:
    paths = [
        plant.write(f"T1/{hour:02d}.csv", f"time,watts,good\n2026-10-01T{hour:02d}:00:00Z,1.0,1\n")
        for hour in range(12)
    ]
    said = {"dataset": "tools"} if size is None else {"dataset": "tools", "size": size}
    with plant.pool.connection() as connection:
        files.enqueue_files(
            connection, [files.Notification(str(path), "T1", metadata=said) for path in paths]
        )
    reports = Scheduler(plant.place, policy=claims.FetchPolicy(limit=3)).drain()
    assert [len(report.completed) for report in reports] == batches
