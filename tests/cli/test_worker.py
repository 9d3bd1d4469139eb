"""`disarray worker` as a process: how it ends, how it comes back, and what it does while the database is away."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from disarray.control.files import Reason
from tests.cli.conftest import report
from tests.plant import Plant
from tests.processes import Running, eventually
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.postgres


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A project whose workers run their kernels in their own process."""
    settings = f'[database]\ndsn = "{dsn}"\n[worker]\nrunner = "in-process"\ndrain_within = "60 s"\n'
    built = Plant(tmp_path, dsn, description=settings + DATASET)
    yield built
    built.pool.close()


@pytest.fixture
def start(plant: Plant) -> Iterator[Callable[..., Running]]:
    """Starts workers in the project, and makes sure that they are gone after the test."""
    started: list[Running] = []

    def start_one(*arguments: str, failpoints: str = "") -> Running:
        log, environment = f"worker-{len(started)}.log", {"DISARRAY_FAILPOINTS": failpoints}
        started.append(
            Running("worker", *arguments, project=plant.inbox.parent, log=log, environment=environment)
        )
        return started[-1]

    yield start_one
    for worker in started:
        worker.kill()


def queue_files(plant: Plant) -> int:
    """Files of several subjects, in one batch; how many."""
    paths = [plant.write(f"TOOL{number:02d}/report.csv", report(1)) for number in range(4)]
    plant.notify(*paths, reason=Reason.QUIET)
    return len(paths)


def count(plant: Plant, query: str) -> int:
    [(number,)] = plant.rows(f"select count(*) from disarray.{query}")
    assert isinstance(number, int)
    return number


def is_claimed(plant: Plant) -> bool:
    return count(plant, "ingest_queue where status = 'claimed'") > 0


def is_drained(plant: Plant) -> bool:
    return count(plant, "ingest_queue") == 0


def test_a_worker_told_to_end_finishes_its_batch_frees_its_subjects_and_ends_with_0(
    plant: Plant, start: Callable[..., Running]
) -> None:
    files = queue_files(plant)
    worker = start("--name", "W1", failpoints="read.before=sleep:2")
    eventually(lambda: is_claimed(plant))
    assert worker.end(signal.SIGTERM) == 0
    assert count(plant, "file_info where status = 'processed'") == files
    assert is_drained(plant)
    assert count(plant, "subject_lock") == 0
    assert "W1 has ended; its subjects are free" in worker.log


def test_a_batch_that_takes_too_long_is_handed_back_without_an_attempt_counted(
    plant: Plant, start: Callable[..., Running]
) -> None:
    settings = plant.inbox.parent / "disarray.toml"
    settings.write_text(settings.read_text().replace('"60 s"', '"50 ms"'))
    files = queue_files(plant)
    worker = start("--name", "W1", failpoints="read.before=sleep:2")
    eventually(lambda: is_claimed(plant))
    assert worker.end(signal.SIGTERM) == 0
    assert "went back to the queue" in worker.log
    waiting = count(plant, "ingest_queue where status = 'available' and retry_count = 0 and crash_count = 0")
    assert 0 < waiting == count(plant, "ingest_queue")
    assert count(plant, "file_info where status = 'processed'") == files - waiting
    assert count(plant, "subject_lock") == 0


@pytest.mark.parametrize(
    ("signals", "code"),
    [([signal.SIGKILL], -signal.SIGKILL), ([signal.SIGTERM, signal.SIGTERM], 128 + signal.SIGTERM)],
    ids=["kill -9", "told twice"],
)
def test_a_worker_that_ended_at_once_resumes_under_its_name_in_seconds(
    plant: Plant, start: Callable[..., Running], signals: list[signal.Signals], code: int
) -> None:
    files = queue_files(plant)
    first = start("--name", "W1", failpoints="read.before=sleep:60")
    eventually(lambda: is_claimed(plant))
    assert first.end(*signals) == code
    assert is_claimed(plant)
    began = time.monotonic()
    second = start("--name", "W1")
    second.wait_for("items in")
    # Not the five minutes of the lease; most of it is the start of the process.
    assert time.monotonic() - began < 30
    eventually(lambda: is_drained(plant))
    assert second.end(signal.SIGTERM) == 0
    assert count(plant, "file_info where status = 'processed'") == files


def test_a_worker_whose_name_was_taken_over_ends_with_1_and_says_so(
    plant: Plant, start: Callable[..., Running]
) -> None:
    first = start("--name", "W1")
    first.wait_for("W1 (life")
    second = start("--name", "W1")
    assert first.process.wait(timeout=240) == 1
    assert "was started again since" in first.log
    assert second.process.poll() is None
    assert second.end(signal.SIGTERM) == 0


def test_a_database_that_is_cut_off_is_waited_for_and_the_work_goes_on(
    plant: Plant, start: Callable[..., Running], server_dsn: str
) -> None:
    import psycopg

    [(database,)] = plant.rows("select current_database()")
    worker = start("--name", "W1")
    worker.wait_for("W1 (life")
    name = psycopg.sql.Identifier(str(database))
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(psycopg.sql.SQL("alter database {} allow_connections false").format(name))
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (database,)
        )
        worker.wait_for("the database is away")
        time.sleep(2)
        admin.execute(psycopg.sql.SQL("alter database {} allow_connections true").format(name))
    worker.wait_for("the database is back")
    plant.notify(plant.write("TOOL01/a.csv", report(0)), reason=Reason.QUIET)
    eventually(lambda: is_drained(plant))
    assert worker.log.count("is away") == 1
    assert worker.end(signal.SIGTERM) == 0


def test_a_worker_serves_its_patterns_alone_and_keeps_them_when_started_without(
    plant: Plant, start: Callable[..., Running]
) -> None:
    plant.notify(
        *(plant.write(f"{tool}/a.csv", report(0)) for tool in ("TOOL01", "TOOL11")), reason=Reason.QUIET
    )
    for arguments in (["--patterns", "TOOL0*, CELL*"], []):
        worker = start("--name", "W1", *arguments)
        eventually(lambda: count(plant, "ingest_queue") == 1)
        worker.wait_for("serves TOOL0*, CELL*")
        assert worker.end(signal.SIGTERM) == 0
    assert plant.rows("select subject_key from disarray.ingest_queue") == [("TOOL11",)]


@pytest.mark.parametrize(
    ("flag", "value", "complaint"),
    [
        ("DISARRAY_WORKER_RUNNER", "dask", "worker.runner"),
        ("DISARRAY_WORKER_PATTERNS", ",", "worker.patterns"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(
    plant: Plant, flag: str, value: str, complaint: str
) -> None:
    from disarray.config import load
    from disarray.errors import ConfigError
    from disarray.worker.process.settings import worker_settings

    with pytest.raises(ConfigError, match=complaint):
        worker_settings(load(plant.inbox.parent, environment={flag: value}))


@pytest.mark.spark
def test_a_worker_whose_jvm_was_killed_hands_back_and_ends_with_1(
    plant: Plant, start: Callable[..., Running]
) -> None:
    settings = plant.inbox.parent / "disarray.toml"
    settings.write_text(
        '[spark]\nmaster = "local[1]"\n' + settings.read_text().replace("in-process", "spark")
    )
    worker = start("--name", "W1")
    worker.wait_for("W1 (life", seconds=240)
    [jvm, *_] = Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children").read_text().split()
    os.kill(int(jvm), signal.SIGKILL)
    plant.notify(plant.write("TOOL01/a.csv", report(0)), reason=Reason.QUIET)
    assert worker.process.wait(timeout=240) == 1
    assert "disarray: Spark's JVM ended while it was needed" in worker.log
    assert plant.rows("select status::text, retry_count from disarray.ingest_queue") == [("available", 0)]
