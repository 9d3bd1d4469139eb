"""Telemetry at one reading a second, as text, fast enough to write a hundred million rows of it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

# Midnight of a day in 2026: files that cover a day cover a segment.
START_S = 1_767_225_600
DAY_S = 86_400
HEADER = b"time,volts,amps,temperature,step\n"
COLUMNS = ("volts", "amps", "temperature", "step")
_BLOCK_ROWS = 20_000

DESCRIPTION = """
[[dataset]]
name = "cycler"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "%(segment)s"
key = []
future_tolerance = "36500 d"

[dataset.columns.volts]
type = "float64"
[dataset.columns.amps]
type = "float64"
[dataset.columns.temperature]
type = "float64"
[dataset.columns.step]
type = "int64"

[dataset.metrics.charge]
kind = "sum"
input = "amps / 3600.0"
[dataset.metrics.in_spec]
kind = "count"
where = "volts > 3.2 and temperature < 31.0"
[dataset.metrics.energy]
kind = "integral"
input = "amps * volts"
max_gap = "1 min"

[dataset.rollups.quarter]
bucket = "15 min"
[dataset.rollups.quarter.aggregates]
readings = "count"
mean_volts = { function = "avg", input = "volts" }
[dataset.rollups.hourly]
bucket = "1 hour"
[dataset.rollups.hourly.aggregates]
peak_volts = { function = "max", input = "volts" }
charge = { function = "sum", input = "amps" }
"""


def description(*, segment: str = "1 d") -> str:
    """Three metrics and two rollups over five columns; a reading is known by its time."""
    return DESCRIPTION % {"segment": segment}


def write_file(path: Path, instants_us: NDArray[np.int64]) -> int:
    """A file with a reading at each of these instants, in this order; how many bytes it took.

    What a reading says follows from its instant, so that the same readings in other files are the same readings.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        size = file.write(HEADER)
        for start in range(0, len(instants_us), _BLOCK_ROWS):
            size += file.write(_lines(instants_us[start : start + _BLOCK_ROWS]))
    return size


def seconds(first_s: int, count: int) -> NDArray[np.int64]:
    """Instants one second apart."""
    instants: NDArray[np.int64] = (first_s + np.arange(count, dtype=np.int64)) * 1_000_000
    return instants


def values_at(instants_us: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """What the readings at these instants say, by column."""
    volts, amps, temperature, step = _integers(instants_us)
    return {"volts": volts / 10_000, "amps": amps / 10_000, "temperature": temperature / 10, "step": step}


def _integers(instants_us: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    mixed = instants_us.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0xC2B2AE3D27D4EB4F)
    yield (30_000 + (mixed >> np.uint64(40)) % np.uint64(12_000)).astype(np.int64)
    yield (100_000 + (mixed >> np.uint64(20)) % np.uint64(900_000)).astype(np.int64)
    yield 250 + instants_us // 1_000_000 % 70
    yield 10_000 + instants_us // 3_600_000_000 % 80_000


def _lines(instants_us: NDArray[np.int64]) -> bytes:
    """Lines of one width, put together from tables of digits: a tenth of the time of formatting them."""
    volts, amps, temperature, step = _integers(instants_us)
    whole_s, fraction_us = instants_us // 1_000_000, instants_us % 1_000_000
    fraction = (".", (fraction_us // 1000, 3), (fraction_us % 1000, 3)) if fraction_us.any() else ()
    cells: list[str | tuple[NDArray[np.int64], int]] = [
        *("", "T", (whole_s // 3600 % 24, 2), ":", (whole_s // 60 % 60, 2), ":", (whole_s % 60, 2)),
        *(*fraction, "Z,"),
        *((volts // 10_000, 1), ".", (volts % 10_000, 4), ","),
        *((amps // 10_000, 2), ".", (amps % 10_000, 4), ","),
        *((temperature // 10, 2), ".", (temperature % 10, 1), ","),
        *((step // 1000, 2), (step % 1000, 3), "\n"),
    ]
    widths = [10, *(len(cell) if isinstance(cell, str) else cell[1] for cell in cells[1:])]
    lines = np.empty((len(step), sum(widths)), dtype=np.uint8)
    lines[:, :10] = _dates(whole_s // DAY_S)
    at = 10
    for cell, width in zip(cells[1:], widths[1:], strict=True):
        if isinstance(cell, str):
            lines[:, at : at + width] = np.frombuffer(cell.encode(), dtype=np.uint8)
        else:
            lines[:, at : at + width] = _digits(width)[cell[0]]
        at += width
    return lines.tobytes()


def _dates(days: NDArray[np.int64]) -> NDArray[np.uint8]:
    first = int(days.min())
    known = np.arange(first, int(days.max()) + 1).astype("datetime64[D]").astype("S10")
    table: NDArray[np.uint8] = known.view(np.uint8).reshape(len(known), 10)
    return table[days - first]


@cache
def _digits(width: int) -> NDArray[np.uint8]:
    """By number: its digits."""
    text = "".join(f"{number:0{width}d}" for number in range(10**width))
    return np.frombuffer(text.encode(), dtype=np.uint8).reshape(10**width, width)
