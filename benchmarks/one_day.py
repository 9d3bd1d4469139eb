"""Very many readings within one day, and the memory that taking them in needs."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.plant import CORES, open_plant
from benchmarks.processes import processes_below
from benchmarks.telemetry_files import DAY_S, START_S, description, write_file
from disarray.engine.runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from benchmarks.server import Server

ROWS_A_FILE = 500_000
READINGS_A_SEGMENT = 139_000


def peak_megabytes_of_a_day(
    server: Server, session: SparkSession, folder: Path, *, rows: int
) -> dict[int, float]:
    """By rows: the most memory of any Python process below this one, for a tenth of the rows and for all of them."""
    step_us = DAY_S * 1_000_000 // rows
    segment_s = max(1, round(READINGS_A_SEGMENT * step_us / 1e6 / 60)) * 60
    wanted = [
        (folder / "inbox" / "TOOL07" / f"{start:010d}.csv", start, min(ROWS_A_FILE, rows - start), step_us)
        for start in range(0, rows, ROWS_A_FILE)
    ]
    with ProcessPoolExecutor(CORES) as pool:
        list(pool.map(_write, wanted))
    paths = [path for path, _, _, _ in wanted]
    peaks: dict[int, float] = {}
    for share in (10, 1):
        some = paths[: max(2, len(paths) // share)]
        text = description(segment=f"{segment_s // 60} min")
        with open_plant(server, folder, text, runner=SparkRunner(session)) as plant:
            with watched_memory() as most:
                plant.ingest(some)
            peaks[rows // share] = round(most[0] / 1024)
            shutil.rmtree(plant.lake.root)
    shutil.rmtree(folder)
    return peaks


@contextmanager
def watched_memory(every_s: float = 0.05) -> Iterator[list[float]]:
    """The most kilobytes that any Python process below this one had resident, looked at many times a second."""
    most = [0.0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every_s):
            for process in processes_below(os.getpid()):
                if not process.name.startswith("python"):
                    continue
                try:
                    status = Path(f"/proc/{process.number}/status").read_text()
                except OSError:
                    continue
                resident = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
                most[0] = max([most[0], *map(float, resident)])

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def _write(wanted: tuple[Path, int, int, int]) -> None:
    path, start, rows, step_us = wanted
    write_file(path, START_S * 1_000_000 + (start + np.arange(rows, dtype=np.int64)) * step_us)
