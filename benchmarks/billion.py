"""Does a plant of a billion readings and a thousand channels still answer, repair and verify as at ten million?

    python -m benchmarks.billion [--readings 1000000000] [--limit-minutes 24]

Twenty machines report fifty channels each, a Parquet file a day, until there are so many readings: a year of them. The
worker takes them in with Spark on two cores; files are written some days at a time and deleted once they are in. There
is one metric, and an hourly rollup of four aggregates; segments are days. At ten million readings, and at the end:

- the newest value of all channels is asked for, of the layer that serves the command line and REST;
- late files land, each an hour of a machine that is missing from the first day, so that all of the year is to their
  right: from the notification to the commit, warm, medians.

Every hour of one channel of the year is asked for at the end, and on a plant of ten million readings in the same year,
whose channels are read a hundredth as often. Then come `status`, housekeeping, and `verify` of a sample of segments,
for which their files are written again. All answers, and the totals of every channel by metric and by rollup, are held
against what was written, to the bit. All the while somebody asks twenty times a second whether numbers are stale.

When time to take files in runs out, the rest is done at the size that was reached, and the result says so.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.channel_files import DAY_US, DESCRIPTION, START_US, Machines, key_of
from benchmarks.channel_history import History
from benchmarks.channel_reads import newest_seconds, quantiles, rollup_totals, year_seconds
from benchmarks.channels import peak_bytes
from benchmarks.goals import Goal, conclude
from benchmarks.plant import CORES, open_plant, spark_session, stored_bytes, timed
from benchmarks.server import settle, shared_server
from benchmarks.watching import Seen, watched
from disarray.control import status
from disarray.engine.runner import SparkRunner
from disarray.engine.verification.selection import Selection
from disarray.engine.verification.verify import verify
from disarray.worker.process.scheduler import Scheduler
from disarray.worker.upkeep.housekeeping import keep_house

if TYPE_CHECKING:
    from types import FrameType

    from disarray.engine.runner import Runner

GOAL = 1_000_000_000
MACHINES = Machines(count=20, channels=50, daily=2_740)
SMALL = 10_000_000
SPARSE = replace(MACHINES, daily=MACHINES.daily // 100)
WARM_UPS, REPAIRS = 2, 7
LATE_FILES = WARM_UPS + REPAIRS
SAMPLE = 0.01
NEWEST_TIMES, YEAR_TIMES = 200, 100


def main() -> None:
    """Fill both plants, ask, repair, verify, and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readings", type=int, default=GOAL)
    parser.add_argument("--limit-minutes", type=float, default=24.0, help="for taking files in")
    parser.add_argument("--folder", type=Path, help="where files and lake are written")
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    # Ended by `kill`, it takes its database, its files and Spark with it as after Ctrl-C.
    signal.signal(signal.SIGTERM, _exit)
    began = time.monotonic()
    days = -(-given.readings // MACHINES.readings_a_day)
    seen = Seen()
    with (
        # Forked before there are threads, and before this process holds anything.
        ProcessPoolExecutor(CORES, mp_context=get_context("forkserver")) as writers,
        tempfile.TemporaryDirectory(prefix="disarray-billion-", dir=given.folder) as name,
        shared_server(given.dsn) as server,
        spark_session() as session,
    ):
        runner = SparkRunner(session)
        with open_plant(server, Path(name) / "sparse", DESCRIPTION, runner=runner) as plant:
            sparse = History(server, plant, SPARSE, writers, holes=0)
            sparse.take_in(days, until=began + given.limit_minutes * 30)
            settle(plant.dsn)
            small_year = year_seconds(plant, SPARSE, days=sparse.days, times=YEAR_TIMES)
            print(f"a year at {sparse.readings:,} readings: {quantiles(small_year)}", flush=True)
            shutil.rmtree(plant.folder)
        with open_plant(server, Path(name) / "year", DESCRIPTION, runner=runner) as plant:
            Path("/proc/self/clear_refs").write_text("5")
            with watched(plant.dsn, seen):
                history = History(server, plant, MACHINES, writers, holes=2 * LATE_FILES)
                until = time.monotonic() + given.limit_minutes * 60
                history.take_in(min(days, -(-SMALL // MACHINES.readings_a_day)), until=until)
                small = look(history, late=range(LATE_FILES))
                history.take_in(days, until=until)
                large = look(history, late=range(LATE_FILES, 2 * LATE_FILES))
                year = year_seconds(plant, MACHINES, days=history.days, times=YEAR_TIMES)
                print(f"a year at {history.readings:,} readings: {quantiles(year)}", flush=True)
                figures = upkeep(history, runner)
            seen.peak_bytes["the worker's own process"] = peak_bytes()
            figures["bytes"] = bytes_of(history)
            wrong = wrong_totals(history)
    minutes = (time.monotonic() - began) / 60
    is_full = given.readings >= GOAL and history.days == sparse.days == days
    print(f"{minutes:.1f} minutes", flush=True)
    conclude(
        "billion",
        [
            *(
                Goal(
                    f"{question}, {name}, {shown(history.readings)} readings / {shown(of)}",
                    round(float(np.quantile(many, share) / np.quantile(few, share)), 2),
                    1.5,
                    at_least=False,
                    applies=is_full,
                )
                for question, of, few, many in (
                    ("newest value of 1,000 channels", small.readings, small.newest, large.newest),
                    ("a year of hours of one channel", sparse.readings, small_year, year),
                )
                for name, share in (("p50", 0.5), ("p99", 0.99))
            ),
            Goal(
                f"late file with the shift, {shown(history.readings)} readings / {shown(small.readings)}",
                round(statistics.median(large.repairs) / statistics.median(small.repairs), 2),
                1.5,
                at_least=False,
                applies=is_full,
            ),
            Goal("channels whose totals are not those that were written", wrong, 0, at_least=False),
            Goal(
                "differences that a sample verified, or files that it could not ask",
                figures["verify"]["differences"] + figures["verify"]["unproven"],
                0,
                at_least=False,
            ),
            Goal(
                "peak memory of the worker's own process in GB",
                round(seen.peak_bytes["the worker's own process"] / 1e9, 3),
                1.0,
                at_least=False,
            ),
            Goal("most disk in GB", round(history.most_disk / 1e9, 1), 60, at_least=False),
            Goal("minutes for all of it", round(minutes, 1), 35, at_least=False, applies=is_full),
        ],
        {
            "readings_asked": given.readings,
            "readings": history.readings,
            "is_the_size_of_the_goals": is_full,
            "days": history.days,
            "files": history.files,
            "minutes": round(minutes, 1),
            "seconds_writing_files": round(history.writing_s, 1),
            "seconds_taking_in": round(history.taking_s, 1),
            "readings_per_second": round(history.readings / history.taking_s),
            "microseconds_a_reading_clock_and_cpu_by_tenths": history.tenths(),
            "small": small.told(),
            "large": large.told(),
            "year_small": quantiles(small_year),
            "year_large": quantiles(year),
            "longest_stale_seconds": round(seen.longest_stale_s, 2),
            "times_stale": seen.times_stale,
            "peak_mb": {name: round(size / 1e6) for name, size in seen.peak_bytes.items()},
        }
        | figures,
        is_full=is_full,
    )


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was asked, and what late files took, at one size."""

    readings: int
    newest: list[float]
    repairs: list[float]
    status_s: float

    def told(self) -> dict[str, Any]:
        """For the result."""
        return {
            "readings": self.readings,
            "newest": quantiles(self.newest),
            "repair_s": [round(each, 3) for each in self.repairs],
            "status_ms": round(self.status_s * 1000, 1),
        }


def look(history: History, *, late: range) -> Look:
    """Ask for the newest values, and let a late file land on each of these machines."""
    plant, machines = history.plant, history.machines
    settle(plant.dsn)
    readings = history.readings
    newest = newest_seconds(plant, machines, history.totals, times=NEWEST_TIMES)
    with plant.connect() as connection:
        status_s = timed(status.queue_status, connection)
    repairs = [history.add([replace(history.span(machine, 0), is_late=True)]) for machine in late]
    newest_seconds(plant, machines, history.totals, times=1)  # what came late is in every value
    found = Look(readings=readings, newest=newest, repairs=repairs[WARM_UPS:], status_s=status_s)
    print(json.dumps(found.told()), flush=True)
    return found


def upkeep(history: History, runner: Runner) -> dict[str, Any]:
    """Keep house, then write the files of a sample of the segments again and verify it."""
    plant = history.plant
    house_s = timed(keep_house, plant.place)
    compaction_s = timed(lambda: list(Scheduler(plant.place).drain()))
    print(f"housekeeping {house_s:.1f} s, what it queued {compaction_s:.1f} s", flush=True)
    selection = Selection(share=SAMPLE, seed="billion")
    days = [
        (machine, day)
        for machine in range(history.machines.count)
        for day in range(history.days)
        if selection.takes(key_of(machine), START_US + day * DAY_US, length_us=DAY_US)
    ]
    spans = [history.span(machine, day) for machine, day in days]
    spans += [replace(span, is_late=True) for span in spans if span.hole is not None]
    expected = sum(each.readings for each in history.write(spans))
    with plant.connect() as connection:
        began = time.monotonic()
        report = verify(
            connection,
            runner,
            {plant.dataset.name: plant.dataset},
            lake=plant.lake,
            selection=selection,
            on_step=lambda step: print(f"verify: {step}", flush=True),
        )
        verify_s = time.monotonic() - began
    print(f"verify: {report.readings:,} readings in {verify_s:.1f} s", flush=True)
    for difference in report.differences[:5]:
        print(f"verify: {difference}", flush=True)
    assert report.readings == expected, f"{expected:,} readings are in the sample"
    return {
        "housekeeping_seconds": round(house_s, 2),
        "compaction_seconds": round(compaction_s, 2),
        "verify": {
            "share": SAMPLE,
            "segments": len(days),
            "readings": report.readings,
            "seconds": round(verify_s, 1),
            "differences": len(report.differences),
            "unproven": len(report.unproven),
        },
    }


def wrong_totals(history: History) -> int:
    """Channels of which the hours of the rollup have other counts or totals than were written."""
    names = history.machines.channel_names()
    wrong = 0
    for machine, totals in history.totals.items():
        readings = history.counts[machine] // len(names)
        expected = {name: (readings, int(total)) for name, total in zip(names, totals, strict=True)}
        found = rollup_totals(history.plant, machine)
        wrong += sum(found.get(name) != expected.get(name) for name in {*found, *expected})
    return wrong


def bytes_of(history: History) -> dict[str, float]:
    """What a reading takes in the lake and in PostgreSQL."""
    lake, database = stored_bytes(history.plant.lake.root), history.database_bytes()
    return {
        "lake": lake,
        "lake_a_reading": round(lake / history.readings, 3),
        "postgresql": database,
        "postgresql_a_reading": round(database / history.readings, 3),
    }


def shown(readings: int) -> str:
    """A size for a person."""
    return f"{readings / 1e6:,.0f} M"


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
