"""What does it cost the agent to watch 100,000 files? An idle scan beside a bare `os.scandir` walk with `stat`.

    python -m benchmarks.agent_scan [--files 100000] [--folder DIR]

Each file is two lines long, in folders of 1,000. After the first scan (which hashes all) and one to warm up, the
median of five idle scans is taken with every tier due (each file is stat'ed) and with only the youngest due.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.goals import Goal, conclude

if TYPE_CHECKING:
    from collections.abc import Callable

FILES_A_FOLDER = 1_000
DATASET = r"""
[[dataset]]
name = "tool"
roots = ["data"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '(?P<subject>TOOL\d+)/' }
zone = "UTC"
event_time = { from = "time", layouts = ["iso"] }

[dataset.columns.value]
from = "value"
type = "float64"
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(_measure(given.folder)))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        _make_files(Path(folder), given.files)
        # A process of its own, so that making the files leaves no trace in its memory.
        command = [sys.executable, "-m", "benchmarks.agent_scan", "--measure", "--folder", folder]
        measured = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures = json.loads(measured)
    is_full = given.files >= 100_000
    conclude(
        "agent_scan",
        [
            Goal(
                f"seconds of an idle scan of {given.files:,} files",
                figures["idle_scan_all_tiers_s"],
                2.0,
                at_least=False,
                applies=is_full,
            ),
            Goal(
                f"peak MB of an agent with {given.files:,} files",
                figures["peak_rss_mb"],
                200,
                at_least=False,
                applies=is_full,
            ),
        ],
        figures,
    )


def _make_files(project: Path, count: int) -> None:
    (project / "disarray.toml").write_text(DATASET)
    for number in range(count):
        folder = project / "data" / f"TOOL{number // FILES_A_FOLDER:03d}"
        if number % FILES_A_FOLDER == 0:
            folder.mkdir(parents=True)
        file = folder / f"run-{number:06d}.csv"
        file.write_text(f"time,value\n2024-01-01T00:00:00Z,{number}\n")
        os.utime(file, (1_700_000_000, 1_700_000_000))


def _measure(project: Path) -> dict[str, Any]:
    from disarray.agent.scanner import Scanner
    from disarray.agent.schedule import Schedule
    from disarray.agent.settings import DEFAULTS
    from disarray.agent.state import StateFile
    from disarray.formats.loader import load_datasets

    settings = replace(DEFAULTS, spool_bytes=10**12)
    state = StateFile(project / "agent" / "state.sqlite")
    scanner = Scanner(
        load_datasets(project / "disarray.toml"), settings, state, clock_us=lambda: time.time_ns() // 1_000
    )
    all_tiers = Schedule(settings.tiers, scan_every_us=0).begin(0)
    began = time.perf_counter()
    notifications = 0
    while (report := scanner.scan(all_tiers)).left_over:
        notifications += report.notifications
    notifications += report.notifications
    first_s = time.perf_counter() - began
    bare_s = _median_seconds(lambda: _walk(project / "data"))
    return {
        "files": report.files,
        "notifications": notifications,
        "first_scan_s": round(first_s, 3),
        "idle_scan_all_tiers_s": (idle_s := _median_seconds(lambda: scanner.scan(all_tiers))),
        "idle_scan_youngest_tier_s": _median_seconds(lambda: scanner.scan(all_tiers[:1])),
        "bare_walk_s": bare_s,
        "idle_scan_per_bare_walk": round(idle_s / bare_s, 2),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000, 1),
    }


def _median_seconds(action: Callable[[], object], repeats: int = 5) -> float:
    action()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return round(statistics.median(seconds), 3)


def _walk(folder: Path) -> int:
    total, waiting = 0, [str(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total


if __name__ == "__main__":
    main()
