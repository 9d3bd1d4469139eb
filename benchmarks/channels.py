"""What does a subject with many channels cost, and how much of it does the worker hold in memory?

    python -m benchmarks.channels [--channels 100] [--days 90] [--files 90]

Each channel has a reading an hour, so that an hourly rollup of four aggregates makes four rows of every reading: nearly
nothing to parse, and as much to commit as can be. From the notification to the last commit with Spark on two cores.
Memory is the peak of the worker's own process, which holds descriptors; tasks and the database have their own.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.goals import Goal, conclude
from benchmarks.plant import open_plant, spark_session
from benchmarks.server import shared_server
from disarray.control.connections import DEFAULT_LIMITS
from disarray.control.timings import TIMINGS
from disarray.engine.runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.plant import Plant

START = datetime(2025, 1, 1, tzinfo=UTC)
DESCRIPTION = """
[[dataset]]
name = "rig"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 d"
key = []
channel = "channel"
[dataset.columns.channel]
type = "string"
[dataset.columns.value]
type = "float64"
[dataset.metrics.total]
kind = "sum"
input = "value"
[dataset.rollups.hourly]
bucket = "1 hour"
[dataset.rollups.hourly.aggregates]
readings = "count"
mean = { function = "avg", input = "value" }
lowest = { function = "min", input = "value" }
highest = { function = "max", input = "value" }
"""


def main() -> None:
    """Write the files, take them in, and tell what it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--channels", type=int, default=100)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--files", type=int, help="so many, of as many days each; a file a day if not given")
    parser.add_argument("--folder", type=Path, help="where files and lake are written")
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    count = given.files or given.days
    with (
        tempfile.TemporaryDirectory(prefix="disarray-bench-", dir=given.folder) as name,
        shared_server(given.dsn) as server,
        spark_session() as session,
    ):
        folder = Path(name)
        paths = list(write_files(folder, channels=given.channels, days=given.days, files=count))
        with open_plant(server, folder, DESCRIPTION, runner=SparkRunner(session)) as plant:
            commits = note_commits()
            Path("/proc/self/clear_refs").write_text("5")
            began = time.perf_counter()
            plant.ingest(paths)
            seconds = time.perf_counter() - began
            held_bytes = peak_bytes()
            parts, part_bytes = stored_parts(plant)
    readings = given.channels * 24 * given.days
    assert parts == readings * 4
    conclude(
        "channels",
        [
            Goal("peak memory of the worker in GB", round(held_bytes / 1e9, 3), 1.0, at_least=False),
            Goal(
                "longest commit / what one statement may take",
                round(max(commits) / (DEFAULT_LIMITS.statement_ms / 1000), 3),
                0.5,
                at_least=False,
            ),
        ],
        {
            "channels": given.channels,
            "days": given.days,
            "files": count,
            "readings": readings,
            "rollup_parts": parts,
            "seconds": round(seconds, 1),
            "readings_per_second": round(readings / seconds),
            "rollup_parts_per_second": round(parts / seconds),
            "commits": len(commits),
            "longest_commit_seconds": round(max(commits), 1),
            "peak_bytes": held_bytes,
            "bytes_a_part_with_indexes": round(part_bytes / parts),
        },
    )


def write_files(folder: Path, *, channels: int, days: int, files: int) -> Iterator[Path]:
    """Files of one subject, each of as many days, in the order of time."""
    generator = random.Random(7)
    inbox = folder / "inbox" / "RIG1"
    inbox.mkdir(parents=True)
    for number in range(files):
        path = inbox / f"{number:05d}.csv"
        with path.open("w") as file:
            file.write("time,channel,value\n")
            for hour in range(24 * days * number // files, 24 * days * (number + 1) // files):
                at = (START + timedelta(hours=hour, minutes=5)).isoformat()
                file.writelines(
                    f"{at},c{channel:04d},{generator.random() * 100:.3f}\n" for channel in range(channels)
                )
        yield path


def note_commits() -> list[float]:
    """The seconds of each commit from now on, printed as well: a long run shows that it gets on."""
    seconds: list[float] = []
    observe = TIMINGS.observe

    def noted(name: str, took: float, *, kind: str = "") -> None:
        observe(name, took, kind=kind)
        if name == "commit":
            seconds.append(took)
            print(f"commit {len(seconds)}: {took:.1f} s, peak {peak_bytes() / 1e6:.0f} MB", flush=True)

    setattr(TIMINGS, "observe", noted)  # noqa: B010 - a method of one object
    return seconds


def peak_bytes() -> int:
    """The most that this process ever held, since it was last set back."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def stored_parts(plant: Plant) -> tuple[int, int]:
    """How many rollup parts there are, and the bytes of their table with its indexes."""
    with plant.connect() as connection:
        # Counting tens of millions of rows may take longer than a worker's statement.
        connection.execute("set statement_timeout = 0")
        row = connection.execute(
            "select count(*), pg_total_relation_size('disarray.rollup') from disarray.rollup"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


if __name__ == "__main__":
    main()
