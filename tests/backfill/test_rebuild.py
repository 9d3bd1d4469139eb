"""Rebuilds as jobs: one subject after the other is moved to the definition in force, and compared afterwards."""

from __future__ import annotations

import json
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from disarray.backfill.replay import ReplayMeans
from disarray.backfill.serving_jobs import JobServer
from disarray.backfill.subject_kinds import subject_kinds
from disarray.control import backfill_chunks, backfills, instances
from disarray.formats.loader import load_datasets
from disarray.queries.backfills import show_backfill
from tests.cli.conftest import IN_PROCESS, report
from tests.forked import plain_environment, run_command
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from disarray.queries.backfills import BackfillDetails

REBUILDS = ("rebuild.swapped",)
TOOLS = ("T1", "T2", "T3")
SCANNED_ANEW = DATASET.replace('input = "good"', 'input = "good * 2"')
READ_ANEW = DATASET.replace('layouts = ["iso"]', 'layouts = ["iso", "%d.%m.%Y %H:%M:%S"]')


class RebuiltPlant(Plant):
    """Three tools whose dataset is about to be defined anew."""

    def started(self, tmp_path: Path, dsn: str, description: str) -> int:
        """Put another definition in force by a job: its number. The worker has the new description."""
        self.description.write_text(description + IN_PROCESS)
        done = run(tmp_path, dsn, "rebuild", "--as-job", "--by", "ada", "--json")
        assert done.returncode == 0, done.stderr
        self.datasets.clear()
        self.datasets.update({dataset.name: dataset for dataset in load_datasets(self.description)})
        job_id: int = json.loads(done.stdout)["job_id"]
        return job_id

    def beside(self, work: Callable[[], Any]) -> set[int]:
        """Do the orders of the queue while something goes on; how many rebuilds were queued at the same time."""
        failures: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=guarded)
        thread.start()
        seen: set[int] = set()
        while thread.is_alive():
            [(count,)] = self.rows("select count(*) from disarray.ingest_queue where kind = 'rebuild'")
            assert isinstance(count, int)
            seen.add(count)
            self.drain()
            thread.join(0.02)
        assert not failures, failures
        return seen

    def served(self, dsn: str, job_id: int) -> tuple[BackfillDetails, set[int]]:
        """A worker that serves the job and does its orders until it has ended, and how many orders were queued."""
        with self.pool.connection() as connection:
            holder = instances.register_instance(connection, "Backfiller")
        means = ReplayMeans(self.place.runner, self.place.lake, self.datasets)
        server = JobServer(dsn=dsn, holder=holder, lease_seconds=60, open_kind=subject_kinds(means))
        seen = self.beside(lambda: server.run_job(job_id, threading.Event(), threads=1))
        with self.pool.connection() as connection:
            return show_backfill(connection, job_id=job_id), seen

    def commits_that_redefined(self) -> list[tuple[object, ...]]:
        return self.rows(
            "select subject_key, count(*) from disarray.subject_commit where is_redefined group by 1 order by 1"
        )


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[RebuiltPlant]:
    built = RebuiltPlant(tmp_path, dsn, description=DATASET)
    built.ingest(
        *(built.write(f"{tool}/{hour}.csv", report(hour, rows=60)) for tool in TOOLS for hour in (0, 5))
    )
    yield built
    built.pool.close()


def run(tmp_path: Path, dsn: str, *arguments: str, armed: str = "") -> subprocess.CompletedProcess[str]:
    environment = plain_environment() | {"DISARRAY_FAILPOINT_LOG": str(tmp_path / "failpoints.log")}
    if armed:
        environment["DISARRAY_FAILPOINTS"] = armed
    where = ("--dsn", dsn, "--state-dir", str(tmp_path))
    return run_command(*where, *arguments, project=tmp_path, environment=environment)


def test_subjects_are_moved_one_after_the_other_and_compared(
    plant: RebuiltPlant, tmp_path: Path, dsn: str
) -> None:
    before = plant.derived()
    job_id = plant.started(tmp_path, dsn, SCANNED_ANEW)
    assert plant.rows("select kind from disarray.ingest_queue") == []
    assert plant.derived() == before, "old numbers are served until a subject is moved"
    job, queued = plant.served(dsn, job_id)
    assert (job.verdict, job.chunks_done, job.rows_done, job.findings) == ("verified", 3, 360, [])
    assert max(queued) <= 1, "one thread has one order in the queue"
    assert [tool for tool, _ in plant.commits_that_redefined()] == list(TOOLS)
    totals = "select sum(total_int) from disarray.segment_metric where metric = 'good_total'"
    assert plant.rows(totals) == [(2 * 3 * 2 * 60,)]
    again = run(tmp_path, dsn, "rebuild", "--as-job", "--json")
    assert json.loads(again.stdout)["job_id"] is None, "where nothing waits, no job is started"


def test_a_subject_that_cannot_be_moved_is_a_dead_chunk_with_its_reason_and_the_others_go_on(
    plant: RebuiltPlant, tmp_path: Path, dsn: str
) -> None:
    (plant.inbox / "T2/5.csv").unlink()
    job_id = plant.started(tmp_path, dsn, READ_ANEW)
    with plant.pool.connection() as connection:
        connection.execute(
            """
            update disarray.backfill_job
            set description = jsonb_set(
                jsonb_set(description, '{processing,retry,max_attempts}', '1'), '{processing,max_error_rate}', '1'
            )
            """
        )
    job, _ = plant.served(dsn, job_id)
    assert (job.verdict, job.chunks_done, job.chunks_dead) == ("incomplete", 2, 1)
    [dead] = job.dead_chunks
    assert dead.cursor_to == ["T2", "tools"]
    assert "T2/5.csv" in (dead.last_error or "")


@pytest.mark.parametrize("point", REBUILDS)
def test_a_killed_rebuild_goes_on_and_moves_every_subject_once(
    plant: RebuiltPlant, tmp_path: Path, dsn: str, point: str
) -> None:
    job_id = plant.started(tmp_path, dsn, SCANNED_ANEW)
    ended: list[int] = []
    resume = ("backfill", "resume", str(job_id), "--json")
    plant.beside(lambda: ended.append(run(tmp_path, dsn, *resume, armed=f"{point}[T2]=kill").returncode))
    assert ended == [-signal.SIGKILL]
    assert f"{point} kill" in (tmp_path / "failpoints.log").read_text()
    plant.beside(lambda: ended.append(run(tmp_path, dsn, *resume).returncode))
    assert ended[1:] == [0]
    with plant.pool.connection() as connection:
        [job] = backfills.list_backfills(connection, job_id=job_id)
        chunks = backfill_chunks.list_backfill_chunks(connection, job_id)
    assert (job.verdict, [chunk.state for chunk in chunks]) == ("verified", ["done"] * 3)
    assert {count for _, count in plant.commits_that_redefined()} == {1}
