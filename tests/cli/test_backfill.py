"""`disarray backfill`, and the workers that jobs are left to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from disarray.control import backfill_chunks, backfills, connections, instances
from tests.backfill.conftest import TABLE
from tests.cli.conftest import IN_PROCESS
from tests.processes import Running, eventually
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from disarray.control.connections import Connection

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres

JOB = """
name = "add_one"
[source]
table = "shop.orders"
cursor_column = "id"
batch_size = 20
[update]
set = { touched = "touched + 1" }
[processing]
max_batch_size = 20
rate_limit_per_second = 10000
"""


@pytest.fixture
def orders(dsn: str, tmp_path: Path) -> Iterator[Connection]:
    """A hundred orders and the file of a job."""
    (tmp_path / "job.toml").write_text(JOB)
    with connections.connect(dsn) as connection:
        connection.execute(TABLE.encode())
        yield connection


def touched(connection: Connection) -> list[tuple[int, int]]:
    return connection.execute("select touched, count(*) from shop.orders group by 1 order by 1").fetchall()


def test_a_job_from_its_plan_to_a_second_verification(run: Run, orders: Connection) -> None:
    plan = json.loads(run("backfill", "plan", "job.toml", "--json").stdout)
    assert (plan["rows"], plan["chunks"], plan["sample"]["rows_written"]) == (100, 5, 20)
    assert touched(orders) == [(0, 100)]
    done = run("backfill", "start", "job.toml")
    assert done.returncode == 0, done.stderr
    assert "verdict      verified: 5 chunks with 100 rows compared" in done.stdout
    assert touched(orders) == [(1, 100)]
    again = json.loads(run("backfill", "verify", "1", "--json").stdout)
    assert (again["verdict"], again["state"]) == ("verified", "done")
    orders.execute("update shop.orders set touched = 5 where id = 30")
    found = run("backfill", "verify", "1")
    assert found.returncode == 1
    assert "chunk 1: 1 rows were changed since by somebody else" in found.stdout
    assert "changed" in run("backfill", "list").stdout


def test_a_verification_that_comes_too_early_ends_nobody_who_works_on_the_job(
    run: Run, orders: Connection, dsn: str
) -> None:
    run("backfill", "start", "job.toml", "--detach")
    with connections.connect(dsn) as other:
        at_work = instances.register_instance(other, "backfill job 1")
        early = run("backfill", "verify", "1")
        assert "when every chunk has ended. Nothing was changed" in early.stderr
        limits = backfill_chunks.FailureLimits(max_attempts=1, max_error_rate=1, alert_threshold=0)
        claim = backfill_chunks.claim_backfill_chunk(other, 1, at_work, lease_seconds=60, limits=limits)
    assert claim.outcome == "none", "nothing is cut yet"


def test_a_job_is_steered_while_it_waits_for_workers(run: Run, orders: Connection) -> None:
    assert "job 1 waits for the workers" in run("backfill", "start", "job.toml", "--detach").stdout
    again = run("backfill", "start", "job.toml")
    assert again.returncode == 1
    assert "is under way as job 1" in again.stderr
    assert (
        "job 1: 50 rows a second, 3 chunks at once"
        in run("backfill", "rate", "1", "50", "--max-concurrency", "3").stdout
    )
    assert "dry run" in run("backfill", "pause", "1", "--dry-run").stdout
    assert "job 1 is paused" in run("backfill", "pause", "1", "--reason", "lunch").stdout
    shown = run("backfill", "show", "1").stdout
    assert "backfill add_one (job 1) on shop.orders: paused" in shown
    assert "because      lunch" in shown
    assert "rate         50 rows/s, 3 chunks at once" in shown
    assert run("backfill", "verify", "1").returncode == 1
    assert "job 1 is cancelled" in run("backfill", "cancel", "1", "--reason", "wrong").stdout
    assert run("backfill", "resume", "1").returncode == 1
    unknown = run("backfill", "show", "9")
    assert unknown.returncode == 1
    assert "there is no backfill job 9" in unknown.stderr
    kinds = orders.execute(
        "select event_type::text from disarray.ingest_event where metadata ? 'job_id'"
    ).fetchall()
    assert [kind for (kind,) in kinds] == [
        "backfill_started",
        "backfill_rate_changed",
        "backfill_paused",
        "backfill_cancelled",
    ]


def test_a_paused_job_goes_on_in_the_foreground(run: Run, orders: Connection) -> None:
    run("backfill", "start", "job.toml", "--detach")
    run("backfill", "pause", "1")
    assert run("backfill", "resume", "1").returncode == 0
    assert touched(orders) == [(1, 100)]


def test_a_job_tells_its_progress_in_lines_and_on_a_terminal(
    run_on_terminal: Callable[..., str], orders: Connection
) -> None:
    told = run_on_terminal("backfill", "start", "job.toml")
    assert "add_one [" in told
    assert "verified" in told


def test_a_worker_processes_chunks_of_a_job_that_was_left_to_it(
    run: Run, orders: Connection, tmp_path: Path, dsn: str
) -> None:
    (tmp_path / "disarray.toml").write_text(IN_PROCESS + DATASET)
    run("backfill", "start", "job.toml", "--detach")
    worker = Running("--dsn", dsn, "--state-dir", str(tmp_path), "worker", project=tmp_path)
    try:
        eventually(lambda: backfills.list_backfills(orders)[0].state == "done", seconds=60)
    finally:
        worker.kill()
    assert backfills.list_backfills(orders)[0].verdict == "verified"
    assert touched(orders) == [(1, 100)]


def test_a_worker_calls_no_function_that_its_own_settings_do_not_name(
    run: Run, orders: Connection, tmp_path: Path, dsn: str
) -> None:
    function = 'set = ["touched"]\nfunction = "tests.backfill.functions:count_up"\ncolumns = ["touched"]'
    text = JOB.replace('set = { touched = "touched + 1" }', function)
    (tmp_path / "foreign.toml").write_text(text.replace("add_one", "foreign"))
    (tmp_path / "disarray.toml").write_text(IN_PROCESS + DATASET)
    assert run("backfill", "start", "foreign.toml", "--detach").returncode == 0
    run("backfill", "start", "job.toml", "--detach")
    worker = Running("--dsn", dsn, "--state-dir", str(tmp_path), "worker", project=tmp_path)
    try:
        eventually(lambda: backfills.list_backfills(orders)[0].state == "done", seconds=60)
    finally:
        worker.kill()
    [own, foreign] = backfills.list_backfills(orders)
    assert (own.verdict, foreign.state, foreign.chunks_done) == ("verified", "running", 0)
