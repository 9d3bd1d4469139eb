"""A process is killed at every step of a backfill, and again when it tries again: every row is transformed once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.backfill.conftest import Shop
from tests.forked import plain_environment, run_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import Databases

HERE = (
    "backfill.scan",
    "backfill.cut",
    "backfill.scanned",
    "backfill.claimed",
    "backfill.read",
    "backfill.written",
    "backfill.completed",
    "backfill.committed",
    "backfill.verifying",
    "backfill.judged",
)
ELSEWHERE = ("backfill.marked",)
CHANGED = ("backfill.reading_again",)
REPUBLISHED = ("backfill.republished",)  # test_republish.py
BACKFILLS = (*HERE, *ELSEWHERE, *CHANGED, *REPUBLISHED)
ONCE = {"backfill.verifying", "backfill.judged"}
# The last hit of each process comes late enough that chunks are done, are at work and wait.
QUICK = {"processing": {"max_concurrency": 1, "retry_policy": {"max_attempts": 9, "backoff": "0 s"}}}


def live(dsn: str, folder: Path, job_id: int, *, armed: str = "", **more: str) -> int:
    environment = plain_environment() | {"DISARRAY_FAILPOINT_LOG": str(folder / "failpoints.log")} | more
    if armed:
        environment["DISARRAY_FAILPOINTS"] = armed
    done = run_command(
        "--dsn", dsn, "backfill", "resume", str(job_id), project=folder, environment=environment
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
    return done.returncode


@pytest.mark.parametrize("point", HERE)
def test_a_killed_process_transforms_every_row_once(shop: Shop, dsn: str, tmp_path: Path, point: str) -> None:
    job_id = shop.start(QUICK)
    done = 0
    for hit in (1, 1) if point in ONCE else (2, 1):  # the first attempt, and the retry
        assert live(dsn, tmp_path, job_id, armed=f"{point}=kill@{hit}") == -signal.SIGKILL
        job = shop.job(job_id)
        assert job.chunks_done >= done, "progress goes back"
        done = job.chunks_done
    assert (tmp_path / "failpoints.log").read_text().count(f"{point} kill") == 2
    assert live(dsn, tmp_path, job_id) == 0
    job = shop.job(job_id)
    assert (job.verdict, job.chunks_done, job.rows_done) == ("verified", 5, 100)
    assert shop.effects() == {1}


@pytest.mark.parametrize("point", CHANGED)
def test_a_process_killed_while_it_reads_rows_again_transforms_every_row_once(
    shop: Shop, dsn: str, tmp_path: Path, point: str
) -> None:
    function = "tests.backfill.functions:count_up_meddled_with"
    job_id = shop.start(
        QUICK, {"update": {"set": ["touched"], "function": function, "columns": ["id", "touched"]}}
    )
    for hit in (2, 1):
        armed = f"{point}=kill@{hit}"
        assert live(dsn, tmp_path, job_id, armed=armed, MEDDLER_DSN=dsn) == -signal.SIGKILL
    assert live(dsn, tmp_path, job_id, MEDDLER_DSN=dsn) == 0
    job = shop.job(job_id)
    # Chunks 2 and 3 had been changed already when they were read for the second time.
    assert (job.verdict, job.rows_read_again) == ("verified", 60)
    assert shop.rows("select distinct note from shop.orders") == [("meddled",)]
    assert shop.effects() == {1}


@pytest.fixture
def elsewhere(databases: Databases) -> Iterator[Shop]:
    """A hundred orders in a database that is not disarray's."""
    name = databases.create()
    built = Shop(databases.dsn(name))
    built.fill()
    yield built
    built.close()
    databases.discard(name)


@pytest.mark.parametrize(
    "point", ["backfill.written", *ELSEWHERE, "backfill.completed", "backfill.committed"]
)
def test_a_killed_process_transforms_every_row_once_in_another_database(
    shop: Shop, elsewhere: Shop, dsn: str, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DSN", elsewhere.dsn)
    there: dict[str, Any] = {"source": {"url": {"env": "SHOP_DSN"}}, "update": {"create": True}}
    job_id = shop.start(QUICK, there)
    for hit in (2, 1):
        armed = f"{point}=kill@{hit}"
        assert live(dsn, tmp_path, job_id, armed=armed, SHOP_DSN=elsewhere.dsn) == -signal.SIGKILL
    assert live(dsn, tmp_path, job_id, SHOP_DSN=elsewhere.dsn) == 0
    assert shop.job(job_id).verdict == "verified"
    assert elsewhere.effects() == {1}
    assert shop.effects() == {0}
