"""`disarray up`: agent and worker in one process."""

from __future__ import annotations

import json
import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest

from disarray import embedded
from disarray.control.files import Reason
from tests.cli.conftest import report
from tests.plant import Plant
from tests.processes import Running, eventually
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

SETTINGS = '[worker]\nname = "up"\nrunner = "in-process"\n[agent]\nscan_every = "200 ms"\n[api]\nport = "0"\n'


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """An empty project; what is over six hours late is parked."""
    description = DATASET.replace("key = []", 'key = []\nhorizon = "6 h"')
    built = Plant(tmp_path, dsn, description=SETTINGS + description)
    yield built
    built.pool.close()


@pytest.fixture
def up(plant: Plant, dsn: str) -> Iterator[Running]:
    """A process that watches the plant's inbox."""
    process = Running("--dsn", dsn, "up", project=plant.inbox.parent)
    process.wait_for("Ctrl-C ends it")
    yield process
    process.kill()


def readings(plant: Plant) -> object:
    [(number,)] = plant.rows("select coalesce(sum(readings), 0)::int from disarray.segment")
    return number


def test_a_new_file_is_readable_within_seconds_and_ctrl_c_ends_it(plant: Plant, up: Running) -> None:
    plant.write("TOOL01/a.csv", report(0))
    began = time.monotonic()
    eventually(lambda: readings(plant) == 120)
    assert time.monotonic() - began < 10  # well below two seconds on an idle machine: benchmarks/latency.py
    assert up.end(signal.SIGINT) == 0
    assert plant.rows("select count(*) from disarray.subject_lock") == [(0,)]


def test_a_file_that_keeps_growing_is_taken_in_continuously_and_equals_one_shot(
    plant: Plant, up: Running
) -> None:
    lines = report(0, 1, 2).splitlines(keepends=True)
    path = plant.write("TOOL01/grows.csv", lines[0])
    seen = set()
    for begin in range(1, len(lines), 10):
        text = "".join(lines[begin : begin + 10])
        with path.open("a") as file:
            # Half a line, and the rest of it a moment later.
            file.write(text[:-7])
            file.flush()
            time.sleep(0.05)
            file.write(text[-7:])
        time.sleep(0.1)
        seen.add(readings(plant))
    eventually(lambda: readings(plant) == 360)
    eventually(lambda: plant.rows("select count(*) from disarray.ingest_queue") == [(0,)])
    assert up.end(signal.SIGTERM) == 0
    assert len(seen) > 3
    grown = plant.derived()
    plant.forget_everything()
    plant.ingest(path, reason=Reason.QUIET)
    assert plant.derived() == grown


def test_once_takes_all_in_and_ends_with_0(
    plant: Plant, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    plant.write("TOOL01/a.csv", report(0).rstrip("\n"))  # the last line counts without its end
    plant.write("TOOL02/a.csv", report(0, 1))
    ended = run("up", "--once", "--json")
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["ok"]
    assert (told["files"], told["processed"]) == (2, 2)
    assert readings(plant) == 360
    again = json.loads(run("up", "--once", "--json").stdout)
    assert (again["announced"], again["processed"]) == (0, 0)


def test_once_ends_with_1_when_something_was_parked_or_failed_and_says_what_to_run(
    plant: Plant, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    plant.write("TOOL01/a.csv", report(10))
    assert run("up", "--once").returncode == 0
    plant.write("TOOL01/late.csv", report(1))
    plant.write("TOOL02/bad.csv", "no,such,columns\n1,2,3\n")
    ended = run("up", "--once")
    assert ended.returncode == 1
    assert "is in quarantine, all or part of it. See: disarray quarantine preview" in ended.stdout
    assert "failed: " in ended.stdout
    assert readings(plant) == 120


def test_once_draws_its_summary_on_a_terminal(plant: Plant, run_on_terminal: Callable[..., str]) -> None:
    plant.write("TOOL01/a.csv", report(0))
    assert "good_total" in run_on_terminal("up", "--once")


def test_a_port_that_is_taken_can_be_chosen_otherwise_as_the_message_says(
    plant: Plant, run: Callable[..., subprocess.CompletedProcess[str]], dsn: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run("up", "--port", str(port))
        assert refused.returncode == 1
        assert f"port {port}" in refused.stderr
        assert "Choose another with --port" in refused.stderr
    process = Running("--dsn", dsn, "up", "--port", "0", project=plant.inbox.parent)
    process.wait_for("Ctrl-C ends it")
    assert process.end(signal.SIGINT) == 0


def test_a_second_one_in_the_same_folder_is_refused_and_the_first_goes_on(
    plant: Plant, up: Running, dsn: str
) -> None:
    second = Running("--dsn", dsn, "up", project=plant.inbox.parent, log="second.log")
    assert second.process.wait(timeout=240) == 1
    assert "another agent works with" in second.log
    plant.write("TOOL01/a.csv", report(0))
    eventually(lambda: readings(plant) == 120)
    assert up.end(signal.SIGTERM) == 0


def test_its_embedded_database_may_be_restarted_under_it_and_stops_with_it(state_dir: Path) -> None:
    project = state_dir.parent
    (project / "inbox" / "TOOL01").mkdir(parents=True)
    (project / "disarray.toml").write_text(SETTINGS + DATASET)
    process = Running("up", project=project)
    try:
        process.wait_for("Ctrl-C ends it", seconds=240)
        embedded.stop(state_dir)
        process.wait_for("the database is away")
        (project / "inbox" / "TOOL01" / "a.csv").write_text(report(0))
        embedded.start(state_dir)
        process.wait_for("1 first data")
        assert process.end(signal.SIGINT) == 0
        assert process.log.count("the database is away") == 1
    finally:
        process.kill()
    assert embedded.status(state_dir).condition is embedded.Condition.STOPPED


@pytest.mark.spark
def test_ctrl_c_at_the_terminal_ends_it_in_good_order_with_spark_beside_it(plant: Plant, dsn: str) -> None:
    settings = plant.inbox.parent / "disarray.toml"
    settings.write_text(
        '[spark]\nmaster = "local[1]"\n' + settings.read_text().replace("in-process", "spark")
    )
    process = Running("--dsn", dsn, "up", project=plant.inbox.parent)
    try:
        process.wait_for("Ctrl-C ends it", seconds=240)
        plant.write("TOOL01/a.csv", report(0))
        eventually(lambda: plant.rows("select 1 from disarray.ingest_queue where status = 'claimed'"))
        # Everybody in the foreground gets it: the process, Spark's JVM and its Python processes.
        process.interrupt_group()
        assert process.process.wait(timeout=240) == 0, process.log
    finally:
        process.kill()
    assert readings(plant) == 120
    assert "ERROR" not in process.log
