"""How fast is job 1 beside bare pyarrow? What does a task need for a 2 GB file? What do 1,000 channels cost?

    python -m benchmarks.parse [--megabytes 400] [--large-megabytes 2048]

The same bytes are read by job 1 on Spark (two cores, warm: one run before the clock starts), which finds what is
new, hashes, frames, types, sorts and writes fragments, and by bare `pyarrow.csv` in two processes, which only parses.
Both take turns; medians of three. Memory is the peak of one task that reads the large file alone.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv

from benchmarks.goals import Goal, conclude
from benchmarks.instrument_files import dataset_in, write_bytes
from disarray.engine.jobs.read_job import read_files
from disarray.engine.runner import InProcessRunner
from disarray.kernels.reading.outcome import ReadReason, ReadRequest, ReadStatus
from disarray.store.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset

TURNS = 3
FILES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--large-megabytes", type=int, default=2048)
    parser.add_argument("--peak-of", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak_of:
        print_peak(Path(given.peak_of[0]), Path(given.peak_of[1]))
        return
    with tempfile.TemporaryDirectory(prefix="disarray-bench-") as name:
        measure(Path(name), megabytes=given.megabytes, large_megabytes=given.large_megabytes)


def measure(folder: Path, *, megabytes: int, large_megabytes: int) -> None:
    from disarray.engine.runner import SparkRunner
    from disarray.engine.session import start_session

    dataset = dataset_in(folder)
    paths = [folder / "inbox" / "C1" / f"{number}.csv" for number in range(FILES)]
    rows = sum(write_bytes(path, size=(megabytes << 20) // FILES) for path in paths)
    runner = SparkRunner(start_session({"spark.master": "local[2]"}))
    read(runner, dataset, paths, folder)
    job, bare = take_turns(lambda: read(runner, dataset, paths, folder), lambda: read_bare(paths))
    runner.session.stop()
    print(f"job 1: {rows / job:,.0f} rows/s, bare pyarrow: {rows / bare:,.0f} rows/s")
    one, many = channel_costs(folder / "channels")
    peak = peak_megabytes(folder / "large", large_megabytes)
    conclude(
        "parse",
        [
            Goal(
                "speed of job 1 / bare pyarrow.csv in two processes",
                round(bare / job, 2),
                0.65,
                at_least=True,
            ),
            Goal("time per row with 1,000 channels / with one", round(many / one, 2), 1.05, at_least=False),
            Goal(f"peak MB of a task on a {large_megabytes} MB file", round(peak), 1024, at_least=False),
        ],
        {"rows": rows, "job_seconds": job, "bare_seconds": bare, "seconds_a_row": {"1": one, "1000": many}},
    )


def read(runner: Runner, dataset: Dataset, paths: Sequence[Path], folder: Path) -> None:
    """Job 1 over files that were never seen."""
    requests = [
        ReadRequest.for_dataset(dataset, str(path), reason=ReadReason.NOTIFICATION, now_us=0, stored=None)
        for path in paths
    ]
    result = read_files(runner, requests, lake=Lake(folder / "lake"), run_id=uuid.uuid4())
    assert all(outcome.status is ReadStatus.READ for outcome in result.outcomes), result.outcomes
    for file in result.files:
        Path(file.path).unlink()


def read_bare(paths: Sequence[Path]) -> None:
    """What the parser alone takes, on as many processes as Spark has cores."""
    with ProcessPoolExecutor(max_workers=2) as pool:
        list(pool.map(_read_bare, paths))


def _read_bare(path: Path) -> int:
    options = pa.csv.ConvertOptions(
        column_types={
            "time": pa.timestamp("us", tz="UTC"),
            "volts": pa.float64(),
            "amps": pa.float64(),
            "temperature": pa.float64(),
            "step": pa.int64(),
            "cycle": pa.int64(),
        }
    )
    reading = pa.csv.ReadOptions(use_threads=False)
    rows: int = pa.csv.read_csv(path, read_options=reading, convert_options=options).num_rows
    return rows


def take_turns(first: Callable[[], None], second: Callable[[], None]) -> tuple[float, float]:
    """Medians of two things that are done alternately."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(TURNS):
        for action, taken in zip((first, second), seconds, strict=True):
            started = time.perf_counter()
            action()
            taken.append(time.perf_counter() - started)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def channel_costs(folder: Path) -> tuple[float, float]:
    """CPU seconds a row of one long file with one channel and with a thousand, in one process."""
    dataset = dataset_in(folder, channels=True)
    paths = {count: folder / "inbox" / "C1" / f"{count}.csv" for count in (1, 1000)}
    rows = {count: write_bytes(path, size=60 << 20, channels=count) for count, path in paths.items()}
    costs: dict[int, list[float]] = {1: [], 1000: []}
    for _ in range(TURNS):
        for count, path in paths.items():
            started = time.process_time()
            read(InProcessRunner(cores=1), dataset, [path], folder)
            costs[count].append((time.process_time() - started) / rows[count])
    return statistics.median(costs[1]), statistics.median(costs[1000])


def peak_megabytes(folder: Path, megabytes: int) -> float:
    """The peak memory of a process that does nothing but read one large file as one task."""
    dataset_in(folder)
    path = folder / "inbox" / "C1" / "large.csv"
    write_bytes(path, size=megabytes << 20)
    command = [sys.executable, "-m", "benchmarks.parse", "--peak-of", str(folder), str(path)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(folder: Path, path: Path) -> None:
    read(InProcessRunner(cores=1), dataset_in(folder), [path], folder)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
