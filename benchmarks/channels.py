"""What do many channels and a rollup cost beside one channel without one, and how much memory does the worker take?

    python -m benchmarks.channels [--channels 1000] [--days 30] [--files 30]

Two plants take in files of as many readings each, one after the other in one run. In the first a subject has one
channel and no rollup. In the second each of its channels has a reading an hour, so that an hourly rollup of four
aggregates makes four parts of every reading: nearly nothing to parse, and as much to commit as can be. From the
notification to the last commit with Spark on two cores, after a few files that are not measured. Memory is the peak of
the worker's own process, which holds descriptors; tasks and the database have their own.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from dataclasses import dataclass, replace
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
    from benchmarks.server import Server
    from disarray.engine.runner import Runner

START = datetime(2025, 1, 1, tzinfo=UTC)
WARM_UP_DAYS = 4
SINGLE = """
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
"""
DESCRIPTION = (
    SINGLE
    + """
[dataset.rollups.hourly]
bucket = "1 hour"
[dataset.rollups.hourly.aggregates]
readings = "count"
mean = { function = "avg", input = "value" }
lowest = { function = "min", input = "value" }
highest = { function = "max", input = "value" }
"""
)


def main() -> None:
    """Write the files, take them in, and tell what it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--channels", type=int, default=1000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--files", type=int, help="so many, of as many days each; a file a day if not given")
    parser.add_argument("--folder", type=Path, help="where files and lake are written")
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    files = given.files or given.days
    readings = given.channels * 24 * given.days
    commits = note_commits()
    with shared_server(given.dsn) as server, spark_session() as session:
        taken = {
            channels: take_in(
                server,
                SparkRunner(session),
                description,
                sizes=Sizes(
                    channels=channels, hourly=given.channels // channels, days=given.days, files=files
                ),
                folder=given.folder,
                commits=commits,
            )
            for channels, description in ((1, SINGLE), (given.channels, DESCRIPTION))
        }
    single, many = taken[1], taken[given.channels]
    assert many.parts == readings * 4
    conclude(
        "channels",
        [
            Goal(
                "readings a second, many channels with a rollup / one channel without",
                round(single.seconds / many.seconds, 3),
                0.5,
                at_least=True,
            ),
            Goal("peak memory of the worker in GB", round(many.held_bytes / 1e9, 3), 1.0, at_least=False),
            Goal(
                "longest commit / what one statement may take",
                round(max(many.commits) / (DEFAULT_LIMITS.statement_ms / 1000), 3),
                0.5,
                at_least=False,
            ),
        ],
        {
            "channels": given.channels,
            "days": given.days,
            "files": files,
            "readings": readings,
            "rollup_parts": many.parts,
            "seconds": round(many.seconds, 1),
            "seconds_of_one_channel": round(single.seconds, 1),
            "readings_per_second": round(readings / many.seconds),
            "readings_per_second_of_one_channel": round(readings / single.seconds),
            "rollup_parts_per_second": round(many.parts / many.seconds),
            "commits": len(many.commits),
            "longest_commit_seconds": round(max(many.commits), 1),
            "seconds_in_commits": round(sum(many.commits), 1),
            "peak_bytes": many.held_bytes,
            "bytes_a_part_with_indexes": round(many.part_bytes / many.parts, 1),
            "bytes_a_summary_with_indexes": round(many.summary_bytes / many.summaries, 1),
        },
    )


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Channels of the subject, readings of each in an hour, and files of as many days each."""

    channels: int
    hourly: int
    days: int
    files: int


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What it took to take in the files of one subject."""

    seconds: float
    held_bytes: int
    commits: list[float]
    parts: int
    part_bytes: int
    summaries: int
    summary_bytes: int


def take_in(
    server: Server,
    runner: Runner,
    description: str,
    *,
    sizes: Sizes,
    folder: Path | None,
    commits: list[float],
) -> Taken:
    """Write the files of one subject, and take them in on a plant of their own."""
    with tempfile.TemporaryDirectory(prefix="disarray-bench-", dir=folder) as name:
        home = Path(name)
        warm_up = replace(sizes, days=WARM_UP_DAYS, files=WARM_UP_DAYS)
        first = list(write_files(home, warm_up, subject="WARM"))
        paths = list(write_files(home, sizes, subject="RIG1"))
        with open_plant(server, home, description, runner=runner) as plant:
            plant.ingest(first)
            commits.clear()
            Path("/proc/self/clear_refs").write_text("5")
            began = time.perf_counter()
            plant.ingest(paths)
            seconds = time.perf_counter() - began
            held_bytes = peak_bytes()
            warm_up_share = sizes.days / (sizes.days + warm_up.days)
            parts, part_bytes = stored_rows(plant, "rollup", "rollup_block")
            summaries, summary_bytes = stored_rows(plant, "segment_summary", "segment_summary")
            return Taken(
                seconds=seconds,
                held_bytes=held_bytes,
                commits=list(commits),
                parts=parts,
                part_bytes=round(part_bytes * warm_up_share),
                summaries=summaries,
                summary_bytes=round(summary_bytes * warm_up_share),
            )


def write_files(folder: Path, sizes: Sizes, *, subject: str) -> Iterator[Path]:
    """Files of one subject, each of as many days, in the order of time."""
    generator = random.Random(7)
    inbox = folder / "inbox" / subject
    inbox.mkdir(parents=True)
    step = timedelta(hours=1) / sizes.hourly
    for number in range(sizes.files):
        path = inbox / f"{number:05d}.csv"
        begin, end = (24 * sizes.days * edge // sizes.files for edge in (number, number + 1))
        with path.open("w") as file:
            file.write("time,channel,value\n")
            for reading in range(begin * sizes.hourly, end * sizes.hourly):
                at = (START + reading * step).isoformat(timespec="milliseconds")
                file.writelines(
                    f"{at},c{channel:04d},{generator.random() * 100:.3f}\n"
                    for channel in range(sizes.channels)
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


def stored_rows(plant: Plant, rows: str, table: str) -> tuple[int, int]:
    """How many rows the measured subject has, and the bytes of the table that holds all rows, with its indexes."""
    with plant.connect() as connection:
        # Counting tens of millions of rows may take longer than a worker's statement.
        connection.execute("set statement_timeout = 0")
        row = connection.execute(
            f"""
            select (select count(*) from disarray.{rows} where subject_key = 'RIG1'),
                pg_total_relation_size('disarray.{table}')
            """.encode()
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


if __name__ == "__main__":
    main()
