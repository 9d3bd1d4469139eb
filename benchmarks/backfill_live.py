"""Does a rebuild keep live work waiting, and how fast is it with nothing live beside it?

    python -m benchmarks.backfill_live [--rows 20000000] [--changes 100]

`disarray up` runs as a process of its own with two datasets: one whose file is appended to, line by line, and one of
many subjects of 100,000 readings that is rebuilt. From each append until a value says what the line says, with and
without a rebuild under way. Starting it with another definition begins a rebuild; it is started with ever another one
until enough changes fell into a rebuild. The first changes after each start are not counted. The same rebuild runs
with nothing live beside it, and once by a worker with the machine to itself that gives way to nobody: all in one pass.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.goals import Goal, conclude
from benchmarks.latency import append_and_wait
from benchmarks.plant import CORES
from benchmarks.telemetry_files import DAY_S, START_S, description, seconds, write_file
from disarray import embedded
from disarray.config import load
from disarray.control import connections, definitions, status
from disarray.demo.factory import DATASET
from disarray.formats.loader import load_datasets
from disarray.worker.passes import rebuilding
from disarray.worker.process.local import open_workplace
from disarray.worker.process.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection

ROWS_A_SUBJECT = 100_000
WARM_UPS = 2
MOST_ROUNDS = 25
LONGEST_START_S = 300.0


def main() -> None:
    """Measure, print, and end with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where files and lake are written")
    given = parser.parse_args()
    # Ended by `kill`, it takes what it started and wrote with it as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="disarray-bench-", dir=given.folder) as name:
        try:
            figures = live_beside(Path(name), rows=given.rows, changes=given.changes)
        finally:
            embedded.stop(Path(name) / ".disarray")
    alone, beside = figures["p99_s"]
    conclude(
        "backfill_live",
        [
            Goal(
                "change → readable with a rebuild under way / without, p99",
                round(beside / alone, 2),
                1.5,
                at_least=False,
            ),
            Goal(
                "rows a second of a rebuild with nothing live beside it / of one pass on an idle machine",
                round(figures["rows_per_second"] / figures["rows_per_second_in_one_pass"], 2),
                0.5,
                at_least=True,
            ),
        ],
        figures,
    )


def live_beside(folder: Path, *, rows: int, changes: int) -> dict[str, Any]:
    """Seconds of changes without and with a rebuild of so many rows, and rows a second of the rebuild both ways."""
    project = Project(folder, rows=rows)
    project.write_files()
    with project.up() as connection:
        project.await_intake(connection)
        alone = project.change(connection, changes)
    print(f"{rows:,} rows are in; {len(alone)} changes without a rebuild", flush=True)
    with project.up() as connection:
        quiet = project.await_rebuild(connection)
    print(f"a rebuild with nothing live beside it: {rows / quiet:,.0f} rows a second", flush=True)
    beside: list[float] = []
    rounds = 0
    while len(beside) < changes and rounds < MOST_ROUNDS:
        with project.up() as connection:
            beside += project.change_while_rebuilding(connection)
            project.await_rebuild(connection)
        rounds += 1
        print(f"{len(beside)} changes beside {rounds} rebuilds", flush=True)
    if not beside:
        raise SystemExit("no change fell into a rebuild: rebuild more rows")
    greedy = project.rebuild_in_one_pass()
    print(f"a rebuild in one pass: {rows / greedy:,.0f} rows a second", flush=True)
    return {
        "rows": rows,
        "changes": [len(alone), len(beside)],
        "rebuilds": rounds,
        "p50_s": [_quantile(each, 0.5) for each in (alone, beside)],
        "p99_s": [_quantile(each, 0.99) for each in (alone, beside)],
        "seconds": [[round(each, 3) for each in some] for some in (alone, beside)],
        "rows_per_second": round(rows / quiet),
        "rows_per_second_in_one_pass": round(rows / greedy),
    }


class Project:
    """A project with a live dataset and one that is rebuilt."""

    def __init__(self, folder: Path, *, rows: int) -> None:
        self.folder = folder
        self.subjects = max(1, rows // ROWS_A_SUBJECT)
        self.file = folder / "live" / "TOOL01" / "report.csv"
        self.lines = self.definitions = 0

    def write_files(self) -> None:
        """The history that is rebuilt, and a live file without a line."""
        self.file.parent.mkdir(parents=True)
        self.file.write_text("time,part,work_order,width\n")
        with ProcessPoolExecutor(CORES) as pool:
            list(pool.map(_write, [(self.folder, number) for number in range(self.subjects)], chunksize=4))

    def describe_anew(self) -> None:
        """Write a disarray.toml like no other before: to go back to one would have to be asked for."""
        self.definitions += 1
        condition = f"volts > 3.{2000 + self.definitions}"
        live = DATASET.replace('"inbox"', '"live"')
        history = description().replace('"inbox"', '"history"').replace("volts > 3.2", condition)
        (self.folder / "disarray.toml").write_text(f"{live}\n{history}")

    @contextmanager
    def up(self) -> Iterator[Connection]:
        """`disarray up` under another definition, ready, and a connection to its database."""
        self.describe_anew()
        told = self.folder / "up.log"
        with told.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "disarray", "up", "--no-api"], cwd=self.folder, stderr=log
            )
            try:
                until = time.monotonic() + LONGEST_START_S
                while "Ctrl-C ends it" not in told.read_text():
                    assert process.poll() is None, told.read_text()
                    assert time.monotonic() < until, told.read_text()
                    time.sleep(0.02)
                with connections.connect(embedded.start(self.folder / ".disarray").dsn) as connection:
                    connection.autocommit = True
                    yield connection
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=120)

    def await_intake(self, connection: Connection) -> None:
        """Until every file of the history is in."""
        while _count(connection, "select count(*) from disarray.subject_version") < self.subjects:
            time.sleep(0.5)
        _await_empty_queue(connection)

    def await_rebuild(self, connection: Connection) -> float:
        """Until no subject waits for it any more; how many seconds that took."""
        began = time.monotonic()
        while self.is_rebuilding(connection):
            time.sleep(0.02)
        return time.monotonic() - began

    def is_rebuilding(self, connection: Connection) -> bool:
        """Whether a subject waits for the definition in force."""
        done, subjects = definitions.count_rebuilt(connection, "cycler")
        return done < subjects

    def change(self, connection: Connection, changes: int) -> list[float]:
        """Append lines, one after the other; seconds until each is readable."""
        found = [self._append(connection) for _ in range(WARM_UPS + changes)]
        return found[WARM_UPS:]

    def change_while_rebuilding(self, connection: Connection) -> list[float]:
        """The same for as long as a rebuild is under way when the line is written."""
        found = []
        while self.is_rebuilding(connection):
            found.append(self._append(connection))
        return found[1:]

    def rebuild_in_one_pass(self) -> float:
        """By a worker of this process that has everything to itself; how many seconds that took."""
        self.describe_anew()
        former = rebuilding.PORTION_READINGS, rebuilding.QUIET_READINGS_A_CORE
        rebuilding.PORTION_READINGS = rebuilding.QUIET_READINGS_A_CORE = 1 << 40
        try:
            with open_workplace(load(self.folder), instance_name="Bench") as place:
                began = time.monotonic()
                for report in Scheduler(place).drain():
                    assert not report.failed, report.failed
                return time.monotonic() - began
        finally:
            rebuilding.PORTION_READINGS, rebuilding.QUIET_READINGS_A_CORE = former

    def _append(self, connection: Connection) -> float:
        self.lines += 1
        time.sleep(Random(self.lines).uniform(0.05, 0.6))
        [dataset] = [each for each in load_datasets(self.folder / "disarray.toml") if each.name == "tools"]
        return append_and_wait(connection, self.folder, dataset, path=self.file, number=self.lines)


def _await_empty_queue(connection: Connection) -> None:
    while True:
        queue = status.queue_status(connection)["queue"]
        if not queue["available"] and not queue["claimed"]:
            return
        time.sleep(0.2)


def _count(connection: Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def _write(wanted: tuple[Path, int]) -> None:
    folder, number = wanted
    path = folder / "history" / f"CH{number:04d}" / "a.csv"
    write_file(path, seconds(START_S - (number % 7) * DAY_S, ROWS_A_SUBJECT))


def _quantile(found: list[float], share: float) -> float:
    return round(float(np.quantile(found, share)), 3)


if __name__ == "__main__":
    main()
