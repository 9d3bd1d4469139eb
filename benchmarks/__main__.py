"""Every benchmark, one after the other: short runs for a look, or the sizes of the goals.

    python -m benchmarks            short: ten minutes on two idle cores; results in .bench
    python -m benchmarks --full     full size: these results are committed, and the README shows them

A benchmark that misses a goal ends with 1; the others are run all the same, and so does this command at its end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks.goals import SHORT_RESULTS


@dataclass(frozen=True)
class Run:
    """A benchmark and its arguments in a short run; at full size it has none."""

    name: str
    short: str = ""
    needs: str = ""  # what has to be there and cannot be had on every machine
    only_full: bool = False


RUNS = (
    Run("queue", "--quick"),
    Run("replay", "--turns 3"),
    Run("inbox", "--events 50000 --turns 2"),
    Run("table_source", "--rows 500000"),
    Run("backfill", "--rows 500000 --sized-rows 200000 --turns 1 --seconds 10"),
    Run("sinks", "--rows 2500000 --repairs 10 --commits 1000 --files 16 --seconds 3"),
    Run("agent_scan", "--files 20000"),
    Run("parse", "--megabytes 100 --large-megabytes 200"),
    Run("growth", "--large-megabytes 200"),
    Run("small_files", "--files 1000 --turns 2"),
    Run("channels", "--channels 50 --days 10"),
    Run("capacity", "--subjects 5 10 --days 10 30 --block-days 5 20 --events 2000 10000"),
    Run("ingest", "--rows 2000000 --files 40 --turns 2"),
    Run("verify", "--rows 600000 3000000"),
    Run("audit", "--rows 600000 3000000 --turns 2"),
    Run("disorder", "--rows 4000000 --files 80 --turns 1"),
    Run("many_subjects", "--subjects 50 1000 --late 15 --asked 30"),
    Run("latency", "--changes 20"),
    Run("base_shift", "--segments 1000 10000 --blocks 128 --repairs 5"),
    Run("read_during_repair", "--days 60 --seconds 5 --turns 2"),
    Run(
        "late_repair",
        "--history 1000000 3000000 --classic-rows 300000 --day-rows 2000000 --segments 500 2000 --repairs 5",
    ),
    Run("plant_load", needs="a RabbitMQ", only_full=True),
    Run("timescale", needs="a TimescaleDB", only_full=True),
)


def main() -> int:
    """Run them; 1 where a goal was missed or a benchmark failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="at the sizes of the goals")
    parser.add_argument(
        "only", nargs="*", metavar="NAME", help="these alone, of: " + ", ".join(run.name for run in RUNS)
    )
    given = parser.parse_args()
    if unknown := set(given.only) - {run.name for run in RUNS}:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    began, missed = time.monotonic(), []
    for run in RUNS:
        if (given.only and run.name not in given.only) or (run.only_full and not given.full):
            continue
        arguments = [] if given.full else run.short.split()
        print(
            f"\n== {' '.join([run.name, *arguments])}" + (f" (needs {run.needs})" if run.needs else ""),
            flush=True,
        )
        started = time.monotonic()
        code = subprocess.run([sys.executable, "-m", f"benchmarks.{run.name}", *arguments]).returncode
        print(f"== {run.name}: {time.monotonic() - started:.0f} s", flush=True)
        if code:
            missed.append(run.name)
    if not given.full:
        print(f"\n{(SHORT_RESULTS / 'README.md').read_text()}")
    print(
        f"{(time.monotonic() - began) / 60:.1f} minutes"
        + (f"; missed or failed: {', '.join(missed)}" if missed else "")
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
