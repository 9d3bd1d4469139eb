"""A resync is killed between every two steps, and whoever resumes it ends with the numbers of the table."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from tests.backfill.resynced_plant import ResyncedPlant
from tests.forked import begin_life, plain_environment, run_command
from tests.sources.table_history import make_table, reader_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RESYNCS = ("resync.extracted", "resync.staged", "resync.compared", "resync.queued", "resync.swapped")
ENGINE = ("backfill.cut", "backfill.written", "backfill.completed", "backfill.committed")
SWAPS = ("read.after", "commit.stated", "commit.before_commit", "commit.after_commit")


@pytest.fixture
def plant(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResyncedPlant]:
    """Twelve rows of three tools, of which one is gone and one has moved since they were pulled."""
    monkeypatch.setenv("HISTORIAN_URL", reader_url(dsn))
    make_table(dsn)
    built = ResyncedPlant(tmp_path, dsn)
    built.fill(12)
    built.pull()
    built.drain()
    built.execute("delete from public.readings where id = 3")
    built.execute("update public.readings set at = at + interval '5 h' where id = 7")
    yield built
    built.pool.close()


def resume(plant: ResyncedPlant, job_id: int, *, armed: str = "") -> int:
    """A process that works on the job to its end, or to its own."""
    environment = plain_environment() | {"DISARRAY_FAILPOINT_LOG": str(plant.root / "failpoints.log")}
    if armed:
        environment["DISARRAY_FAILPOINTS"] = armed
    where = ("--dsn", plant.dsn, "--state-dir", str(plant.root))
    done = run_command(
        *where, "backfill", "resume", str(job_id), "--json", project=plant.root, environment=environment
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def swapped_once(plant: ResyncedPlant) -> None:
    """The numbers are those of the table, and each subject has one commit of the resync."""
    assert plant.numbers() == plant.table()
    assert plant.rows("select * from disarray.staged_delivery") == []
    [(twice,)] = plant.rows(
        """
        select count(*) from (
            select subject_key from disarray.ingest_event
            where event_type = 'completed' and kind = 'resync'
            group by subject_key having count(*) > 1
        ) as repeated
        """
    )
    assert twice == 0, "a subject was swapped twice"


@pytest.mark.parametrize("point", [*RESYNCS, *ENGINE])
def test_a_resync_that_is_killed_at_a_step_goes_on_and_swaps_each_subject_once(
    plant: ResyncedPlant, point: str
) -> None:
    job_id = plant.start()
    ended: list[int] = []
    about = "[TOOL01]" if point in ("resync.queued", "resync.swapped") else ""
    hit = "" if about else "@2"
    plant.beside(lambda: ended.append(resume(plant, job_id, armed=f"{point}{about}=kill{hit}")))
    assert ended == [-signal.SIGKILL]
    assert f"{point} kill" in (plant.root / "failpoints.log").read_text()
    plant.beside(lambda: ended.append(resume(plant, job_id)))
    assert ended[1:] == [0]
    assert plant.job(job_id).verdict == "verified"
    swapped_once(plant)


def do_orders(dsn: str, root: Path) -> None:
    """A life of a worker that does the orders of the queue."""
    plant = ResyncedPlant(root, dsn)
    while True:
        plant.drain()


@pytest.mark.parametrize("point", SWAPS)
def test_a_worker_that_is_killed_in_the_swap_of_a_subject_leaves_it_to_the_next(
    plant: ResyncedPlant, dsn: str, point: str
) -> None:
    job_id = plant.start()
    about = "" if point == "read.after" else "[TOOL01]"
    process = begin_life(do_orders, dsn, plant.root, DISARRAY_FAILPOINTS=f"{point}{about}=kill")
    server = plant.server("Backfiller")
    ended = threading.Event()

    def beside() -> None:
        process.wait(120)
        plant.revive()
        while not ended.is_set():
            plant.drain()
            ended.wait(0.02)

    worker = threading.Thread(target=beside)
    worker.start()
    server.run_job(job_id, threading.Event(), threads=1)
    ended.set()
    worker.join()
    assert process.returncode == -signal.SIGKILL
    assert plant.job(job_id).verdict == "verified"
    swapped_once(plant)
