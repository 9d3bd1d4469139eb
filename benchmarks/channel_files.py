"""Files of many channels, fast enough to write a billion readings of them, and what their readings add up to.

A machine reports a day of all its channels in one file, instant after instant. What a reading says is a number that
follows from machine, channel and instant alone, so a file can be written again, byte for byte, and totals are known
without a look at what was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

DAY_US = 86_400_000_000
HOUR_US = 3_600_000_000
# Midnight of a day in 2025: a file covers a day, and a day is a segment.
START_US = 1_735_689_600_000_000
MOST = 50_000

DESCRIPTION = """
[[dataset]]
name = "press"
roots = ["inbox"]
files = ["**/*.parquet"]
format = "parquet"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
segment = "1 d"
zone = "UTC"
key = []
channel = "channel"
future_tolerance = "36500 d"
[dataset.columns.channel]
type = "string"
[dataset.columns.pulses]
type = "int64"
[dataset.metrics.total_pulses]
kind = "sum"
input = "pulses"
[dataset.rollups.hourly]
bucket = "1 hour"
[dataset.rollups.hourly.aggregates]
readings = "count"
pulses = { function = "sum", input = "pulses" }
lowest = { function = "min", input = "pulses" }
highest = { function = "max", input = "pulses" }
"""


@dataclass(frozen=True, kw_only=True)
class Machines:
    """So many machines of as many channels each, and how often each of these is read in a day."""

    count: int
    channels: int
    daily: int

    @property
    def readings_a_day(self) -> int:
        """Of all machines together."""
        return self.count * self.channels * self.daily

    @property
    def step_us(self) -> int:
        """From one instant to the next."""
        return DAY_US // self.daily

    def keys(self) -> list[str]:
        """The subjects."""
        return [key_of(machine) for machine in range(self.count)]

    def channel_names(self) -> list[str]:
        """The channels of each of them."""
        return [f"c{channel:04d}" for channel in range(self.channels)]

    def instants(self, day: int) -> NDArray[np.int64]:
        """When all channels are read on a day."""
        return START_US + day * DAY_US + np.arange(self.daily, dtype=np.int64) * self.step_us

    def pulses(self, machine: int, instants_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """By instant and channel: what each reading says."""
        with np.errstate(over="ignore"):
            rows = instants_us.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            columns = (np.arange(self.channels) + machine * self.channels + 1).astype(np.uint64)
            mixed = rows[:, None] ^ (columns * np.uint64(0xC2B2AE3D27D4EB4F))[None, :]
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
        found: NDArray[np.int64] = ((mixed >> np.uint64(32)) % np.uint64(MOST)).astype(np.int64)
        return found


@dataclass(frozen=True, kw_only=True)
class Span:
    """What a file is about: a day of one machine but for a hole in it, or, where it is late, that hole alone."""

    machine: int
    day: int
    hole: tuple[int, int] | None = None  # from which hour of the day to which
    is_late: bool = False

    def instants(self, machines: Machines) -> NDArray[np.int64]:
        """When its channels are read."""
        whole = machines.instants(self.day)
        if self.hole is None:
            return whole
        midnight = START_US + self.day * DAY_US
        first, end = (np.searchsorted(whole, midnight + hour * HOUR_US) for hour in self.hole)
        return whole[first:end] if self.is_late else np.delete(whole, slice(first, end))

    def path(self, inbox: Path) -> Path:
        """Where the file lies."""
        kind = "late" if self.is_late else "day"
        return inbox / key_of(self.machine) / f"{kind}{self.day:05d}.parquet"


@dataclass(frozen=True, kw_only=True)
class Written:
    """A file, how many readings it has, and what they add up to by channel."""

    path: Path
    readings: int
    totals: NDArray[np.int64]


def write_span(machines: Machines, span: Span, inbox: Path) -> Written:
    """Write one file."""
    instants = span.instants(machines)
    pulses = machines.pulses(span.machine, instants)
    path = span.path(inbox)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, machines, instants, pulses)
    return Written(path=path, readings=pulses.size, totals=pulses.sum(axis=0))


def write_table(
    path: Path, machines: Machines, instants_us: NDArray[np.int64], pulses: NDArray[np.int64]
) -> None:
    """Instant after instant, all channels of each."""
    places = np.tile(np.arange(machines.channels, dtype=np.int32), len(instants_us))
    columns: dict[str, pa.Array[Any]] = {
        "time": pa.array(np.repeat(instants_us, machines.channels)).cast(pa.timestamp("us", "UTC")),
        "channel": pa.DictionaryArray.from_arrays(pa.array(places), pa.array(machines.channel_names())),
        "pulses": pa.array(pulses.reshape(-1)),
    }
    pq.write_table(pa.table(columns), path, compression="snappy", write_statistics=False)


def key_of(machine: int) -> str:
    """The subject of a machine."""
    return f"PRESS{machine:03d}"
