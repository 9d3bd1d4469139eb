"""A long history of one subject, taken in by the worker itself, with holes that late files fill."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.plant import CORES
from benchmarks.telemetry_files import DAY_S, START_S, seconds, write_file

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from benchmarks.plant import Plant

HOLE_START_S = 8 * 3600
HOLE_S = 4 * 3600
# So many days are written, taken in and deleted again at a time: text is four times what is kept of it.
_DAYS_AT_ONCE = 250


def build_history(plant: Plant, subject: str, *, days: int, late_days: Collection[int]) -> None:
    """A file a day at one reading a second; four hours are missing from the days that late files are for."""
    with ProcessPoolExecutor(CORES) as pool:
        for start in range(0, days, _DAYS_AT_ONCE):
            wanted = [
                (plant.folder / "inbox" / subject / f"day{day:05d}.csv", day, day in late_days)
                for day in range(start, min(days, start + _DAYS_AT_ONCE))
            ]
            list(pool.map(_write_day, wanted, chunksize=8))
            paths = [path for path, _, _ in wanted]
            plant.ingest(paths)
            for path in paths:
                path.unlink()


def late_file(plant: Plant, subject: str, day: int) -> Path:
    """The four hours that are missing from a day."""
    path = plant.folder / "inbox" / subject / f"late{day:05d}.csv"
    write_file(path, seconds(START_S + day * DAY_S + HOLE_START_S, HOLE_S))
    return path


def _write_day(wanted: tuple[Path, int, bool]) -> None:
    path, day, has_hole = wanted
    instants = seconds(START_S + day * DAY_S, DAY_S)
    if has_hole:
        instants = np.delete(instants, slice(HOLE_START_S, HOLE_START_S + HOLE_S))
    write_file(path, instants)
