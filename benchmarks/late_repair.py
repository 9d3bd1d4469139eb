"""What does a late file cost, whatever history lies to its right?

    python -m benchmarks.late_repair [--history 1000000 10000000 100000000] [--classic-rows 10000000]
                                     [--day-rows 100000000] [--segments 1000 100000] [--repairs 7] [--without-rivals]

One subject at one reading a second for each size, taken in from daily CSV files by the worker itself; three metrics and
two rollups. A late CSV file of four hours lands in one of the first days, so that nearly all of the history is to its
right.

(a) From the notification to the commit, warm, histories taking turns, medians: with the shift of bases, and without it.
    That is measured apart, on summaries that were changed and rolled back; `base_shift` has it by number of segments.
    All the while somebody asks twenty times a second whether numbers are stale.
(b) The classic way on the same PostgreSQL: each row stores one running total; the rows are inserted and a window
    function updates all to their right. Ours keeps three totals and two rollups meanwhile.
(c) A full recompute of one running total over the same Parquet with Spark's window functions, and with DuckDB, two
    threads each; only event time and the total are written. Once each.
(d) So many readings within one day, in segments of about 139,000: the most memory that a Python process of Spark takes,
    beside that for a tenth of them.
(e) Two histories in segments of five minutes with ten readings each, taken in likewise. A late file of an hour lands in
    the first day, so that all blocks of segments behind it move. From the notification to the commit with the shift,
    warm, taking turns, medians. Stale numbers are watched for as in (a).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.goals import Goal, conclude
from benchmarks.history import build_history, late_file
from benchmarks.one_day import peak_megabytes_of_a_day
from benchmarks.plant import open_plant, spark_session, timed
from benchmarks.rivals import classic_repair, duckdb_recompute, spark_recompute
from benchmarks.segment_counts import repair_short_segments
from benchmarks.server import settle, shared_server
from benchmarks.spark_ways import SPARK_MEMORY
from benchmarks.telemetry_files import DAY_S, START_S, description
from benchmarks.watching import Seen, watched
from disarray.engine.runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.plant import Plant

WARM_UPS = 2


@dataclass(frozen=True)
class Repair:
    """Seconds of one late file, and how much of it was the shift of bases."""

    total: float
    shift: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--history", type=int, nargs="+", default=[1_000_000, 10_000_000, 100_000_000])
    parser.add_argument("--classic-rows", type=int, default=10_000_000)
    parser.add_argument("--day-rows", type=int, default=100_000_000)
    parser.add_argument("--segments", type=int, nargs="*", default=[1_000, 100_000])
    parser.add_argument("--repairs", type=int, default=7)
    parser.add_argument("--without-rivals", action="store_true")
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    goals: list[Goal] = []
    figures: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="disarray-bench-") as name,
        shared_server(given.dsn) as server,
        spark_session(SPARK_MEMORY) as session,
    ):
        with open_plant(server, Path(name) / "years", description(), runner=SparkRunner(session)) as plant:
            seen = Seen()
            with watched(plant.dsn, seen):
                repairs = repair_histories(plant, given.history, repairs=given.repairs)
            seconds = {rows: statistics.median(each.total for each in done) for rows, done in repairs.items()}
            shifts = {rows: statistics.median(each.shift for each in done) for rows, done in repairs.items()}
            least, most = min(seconds), max(seconds)
            goals.append(
                Goal(
                    f"(a) late file, {shown(most)} rows of history / {shown(least)}, without the shift of bases",
                    round((seconds[most] - shifts[most]) / (seconds[least] - shifts[least]), 2),
                    1.3,
                    at_least=False,
                )
            )
            goals.append(
                Goal(
                    f"(a) the same with the shift of bases, {shown(most)} / {shown(least)}",
                    round(seconds[most] / seconds[least], 2),
                    1.3,
                    at_least=False,
                )
            )
            figures |= {
                "repair_s": seconds,
                "of_which_shift_s": shifts,
                "with_the_shift": round(seconds[most] / seconds[least], 2),
                "all_s": {rows: [each.total for each in done] for rows, done in repairs.items()},
            }
            print(figures)
            if not given.without_rivals:
                parquet = lake_files(plant, subject_of(most))
                for rival, recompute, limit in (
                    ("DuckDB", duckdb_recompute, 15),
                    ("Spark", spark_recompute, 30),
                ):
                    taken = recompute(session, parquet, Path(name) / "recomputed")
                    print(f"{rival}: {taken:.1f} s")
                    figures[f"{rival}_s"] = taken
                    goals.append(
                        Goal(
                            f"(c) times faster than a full {rival} recompute at {shown(most)}",
                            round(taken / seconds[most], 1),
                            limit,
                            at_least=True,
                            applies=most >= 100_000_000,
                        )
                    )
            shutil.rmtree(plant.lake.root)
        if not given.without_rivals:
            with server.database("classic") as dsn:
                figures["classic_s"] = classic_repair(dsn, given.classic_rows)
            print(f"classic: {figures['classic_s']:.1f} s")
            near = min(seconds, key=lambda rows: abs(rows - given.classic_rows))
            goals.insert(
                1,
                Goal(
                    f"(b) times faster than the classic way at {shown(given.classic_rows)}",
                    round(figures["classic_s"] / seconds[near], 1),
                    100,
                    at_least=True,
                    applies=near >= given.classic_rows >= 10_000_000,
                ),
            )
        if given.segments:
            short = repair_short_segments(
                server, session, Path(name) / "short", given.segments, repairs=given.repairs, seen=seen
            )
            medians = {count: statistics.median(taken) for count, taken in short.items()}
            fewest, many = min(medians), max(medians)
            figures |= {"segments_s": medians, "all_segments_s": short}
            goals.append(
                Goal(
                    f"(e) late file with the shift, {many:,} segments of history / {fewest:,}",
                    round(medians[many] / medians[fewest], 2),
                    1.5,
                    at_least=False,
                    applies=many >= 100_000,
                )
            )
        figures["times_stale"] = seen.times_stale
        goals.append(
            Goal(
                "(a, e) the longest time in seconds for which a reader was told that numbers are stale",
                round(seen.longest_stale_s, 2),
                0,
                at_least=False,
            )
        )
        if given.day_rows:
            peaks = peak_megabytes_of_a_day(server, session, Path(name) / "day", rows=given.day_rows)
            figures["peak_mb"] = peaks
            small, large = peaks.values()
            goals.append(
                Goal(
                    f"(d) most memory of a process, {shown(given.day_rows)} rows in a day / a tenth of them",
                    round(large / small, 2),
                    1.5,
                    at_least=False,
                    applies=given.day_rows >= 20_000_000,
                )
            )
    conclude("late_repair", goals, figures)


def repair_histories(plant: Plant, sizes: Sequence[int], *, repairs: int) -> dict[int, list[Repair]]:
    """Late files into each history in turn."""
    late_days = range(1, 1 + WARM_UPS + repairs)
    for rows in sizes:
        taken = timed(build_history, plant, subject_of(rows), days=rows // DAY_S, late_days=late_days)
        print(f"{rows:,} rows of history in {taken:.0f} s")
    settle(plant.dsn)
    found: dict[int, list[Repair]] = {rows: [] for rows in sizes}
    # From the last hole to the first, so that each file has all that came before it to its right as well.
    for day in reversed(late_days):
        for rows in sizes:
            path = late_file(plant, subject_of(rows), day)
            total = timed(plant.ingest, [path])
            if day <= repairs:
                found[rows].append(Repair(total, shift_seconds(plant, subject_of(rows), day)))
    return found


def shift_seconds(plant: Plant, subject: str, day: int) -> float:
    """How long the shift of bases alone takes when a segment's totals have changed."""
    segment_us = (START_S + day * DAY_S) * 1_000_000
    with psycopg.connect(plant.dsn) as connection:
        connection.execute(
            """
            update disarray.segment_summary
            set total_float = total_float + 1, total_int = total_int + 1
            where subject_key = %s and segment_us = %s
            """,
            (subject, segment_us),
        )
        taken = timed(
            lambda: connection.execute(
                "select bases_shifted from telemetry.shift_bases(%s, %s, %s, null, %s)",
                (plant.dataset.name, subject, segment_us, [segment_us]),
            )
        )
        connection.rollback()
    return taken


def lake_files(plant: Plant, subject: str) -> list[str]:
    """The Parquet files in which the readings of a subject lie."""
    with plant.place.pool.connection() as connection:
        rows = connection.execute(
            "select distinct path from disarray.fragment where subject_key = %s and state = 'active'",
            (subject,),
        ).fetchall()
    return [plant.lake.absolute(path) for (path,) in rows]


def subject_of(rows: int) -> str:
    return f"TOOL{rows}"


def shown(rows: int) -> str:
    return f"{rows / 1e6:g} M"


if __name__ == "__main__":
    main()
