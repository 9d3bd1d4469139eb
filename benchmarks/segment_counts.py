"""What a late file costs by how many segments a subject has, each with the same readings."""

from __future__ import annotations

import shutil
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.plant import CORES, open_plant, timed
from benchmarks.server import settle
from benchmarks.telemetry_files import DAY_S, START_S, description, write_file
from benchmarks.watching import watched
from disarray.engine.runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from benchmarks.server import Server
    from benchmarks.watching import Seen

SEGMENT_S = 300
STEP_S = 30
# An hour is missing of every two; it begins and ends within a segment.
HOLE_EVERY_S, HOLE_START_S, HOLE_S = 7200, 1950, 3600
WARM_UPS = 2


def repair_short_segments(
    server: Server, session: SparkSession, folder: Path, counts: Sequence[int], *, repairs: int, seen: Seen
) -> dict[int, list[float]]:
    """By segments of a history: seconds from a late file to its commit. The subjects take turns."""
    found: dict[int, list[float]] = {count: [] for count in counts}
    with open_plant(
        server, folder, description(segment=f"{SEGMENT_S} s"), runner=SparkRunner(session)
    ) as plant:
        for count in counts:
            paths = _write_history(folder, count, holes=WARM_UPS + repairs)
            print(f"{count:,} segments of history in {timed(plant.ingest, paths):.0f} s")
            shutil.rmtree(paths[0].parent)
        settle(plant.dsn)
        with watched(plant.dsn, seen):
            # From the last hole to the first, so that all that came before is to the right of a file as well.
            for hole in reversed(range(WARM_UPS + repairs)):
                for count in counts:
                    path = _folder_of(folder, count) / f"late{hole:03d}.csv"
                    write_file(path, _hole_us(hole))
                    taken = timed(plant.ingest, [path])
                    if hole < repairs:
                        found[count].append(taken)
        shutil.rmtree(plant.lake.root)
    return found


def _write_history(folder: Path, count: int, *, holes: int) -> list[Path]:
    """A file a day, without the hours that late files are for."""
    instants_us = _instants_us(START_S, count * SEGMENT_S)
    instants_us = np.setdiff1d(instants_us, np.concatenate([_hole_us(hole) for hole in range(holes)]))
    days = np.arange(START_S + DAY_S, START_S + count * SEGMENT_S, DAY_S) * 1_000_000
    of_days = np.split(instants_us, np.searchsorted(instants_us, days))
    paths = [_folder_of(folder, count) / f"day{day:05d}.csv" for day in range(len(of_days))]
    with ProcessPoolExecutor(CORES) as pool:
        list(pool.map(write_file, paths, of_days, chunksize=8))
    return paths


def _hole_us(hole: int) -> NDArray[np.int64]:
    return _instants_us(START_S + hole * HOLE_EVERY_S + HOLE_START_S, HOLE_S)


def _instants_us(first_s: int, length_s: int) -> NDArray[np.int64]:
    instants: NDArray[np.int64] = np.arange(first_s, first_s + length_s, STEP_S, dtype=np.int64) * 1_000_000
    return instants


def _folder_of(folder: Path, count: int) -> Path:
    return folder / "inbox" / f"TOOL{count}S"
