"""How long from a change of a file to a value that can be read, on an idle system.

    python -m benchmarks.latency [--changes 60]

`disarray up` runs as a process of its own, with Spark and the embedded database of a new project. Files are appended to
one at a time, at random moments, and the value of a metric is asked for until it says what the file says. Warm-up: two
changes that are not counted. Every twentieth pause is longer than the minute after which Spark ends idle processes.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.goals import Goal, conclude
from disarray import embedded
from disarray.control import connections
from disarray.demo.factory import DATASET
from disarray.formats.loader import load_datasets
from disarray.queries.metric_values import value_at
from disarray.store.lake import Lake

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset

START = datetime(2026, 9, 1, tzinfo=UTC)
LONG_PAUSE_SECONDS = 70.0
MOST_SECONDS = 120.0


def main() -> None:
    """Measure, print, and end with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=60)
    changes = parser.parse_args().changes
    with tempfile.TemporaryDirectory(prefix="disarray-latency-") as folder:
        seconds = sorted(measure(Path(folder), changes=changes))
    middle, worst = seconds[len(seconds) // 2], seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))]
    goals = [
        Goal("file change → readable value, p50 s", round(middle, 2), 0.5, at_least=False),
        Goal("file change → readable value, p99 s", round(worst, 2), 5.0, at_least=False),
    ]
    conclude("latency", goals, {"changes": changes, "seconds": [round(each, 3) for each in seconds]})


def measure(project: Path, *, changes: int) -> list[float]:
    """Seconds from each append to a value that includes it."""
    (project / "disarray.toml").write_text(DATASET)
    path = project / "inbox" / "TOOL01" / "report.csv"
    path.parent.mkdir(parents=True)
    path.write_text("time,part,work_order,width\n")
    log = (project / "up.log").open("w")
    process = subprocess.Popen([sys.executable, "-m", "disarray", "up", "--no-api"], cwd=project, stderr=log)
    try:
        while "Ctrl-C ends it" not in (project / "up.log").read_text():
            assert process.poll() is None, (project / "up.log").read_text()
            time.sleep(0.1)
        server = embedded.start(project / ".disarray")
        [dataset] = load_datasets(project / "disarray.toml")
        generator = random.Random(7)
        seconds = []
        with connections.connect(server.dsn) as connection:
            for number in range(1, changes + 3):
                is_long = number % 20 == 5
                time.sleep(LONG_PAUSE_SECONDS if is_long else generator.uniform(0.5, 2.5))
                seconds.append(append_and_wait(connection, project, dataset, path=path, number=number))
                print(
                    f"{number:3d}  {seconds[-1]:.2f} s{'  after a minute of rest' if is_long else ''}",
                    flush=True,
                )
        return seconds[2:]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        log.close()


def append_and_wait(
    connection: Connection, project: Path, dataset: Dataset, *, path: Path, number: int
) -> float:
    """Append one line and ask until the count says so."""
    at = START + timedelta(minutes=number)
    with path.open("a") as file:
        file.write(f"{at:%Y-%m-%dT%H:%M:%S}Z,{number},WO1,10.0\n")
    began = time.monotonic()
    while time.monotonic() - began < MOST_SECONDS:
        found = value_at(
            connection,
            Lake(project / ".disarray" / "lake"),
            dataset=dataset,
            subject_key="TOOL01",
            metric=dataset.metrics[0],
        )
        if any(each.number == number for each in found.values):
            return time.monotonic() - began
        time.sleep(0.02)
    raise SystemExit(f"change {number} was not readable after {MOST_SECONDS} s")


if __name__ == "__main__":
    main()
