"""The history of machines with many channels: written some days at a time, taken in, deleted, and added up."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.channel_files import Span, write_span
from benchmarks.channels import peak_bytes
from benchmarks.plant import stored_bytes
from benchmarks.processes import cost_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from concurrent.futures import ProcessPoolExecutor

    import numpy as np
    from numpy.typing import NDArray

    from benchmarks.channel_files import Machines, Written
    from benchmarks.plant import Plant
    from benchmarks.processes import Cost
    from benchmarks.server import Server

DAYS_AT_ONCE = 10
HOLE = (8, 9)
LARGE = 1_000_000  # readings of files that came in together, and were no late ones


@dataclass
class History:
    """A plant as it fills, and what was written for it."""

    server: Server
    plant: Plant
    machines: Machines
    writers: ProcessPoolExecutor
    holes: int  # so many machines miss an hour of the first day
    days: int = 0
    files: int = 0
    readings: int = 0
    writing_s: float = 0.0
    taking_s: float = 0.0
    most_disk: int = 0
    totals: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    waves: list[tuple[int, Cost]] = field(default_factory=list)

    def take_in(self, days: int, *, until: float) -> None:
        """Write the files of some days, take them in, delete them; and so on until there are so many days."""
        began, first = time.monotonic(), self.readings
        while self.days < days and time.monotonic() < until:
            some = range(self.days, min(days, self.days + DAYS_AT_ONCE))
            spans = [self.span(machine, day) for day in some for machine in range(self.machines.count)]
            self.add(spans)
            self.days = some.stop
            rate = (self.readings - first) / (time.monotonic() - began)
            left_s = (days - self.days) * self.machines.readings_a_day / rate
            print(
                f"day {self.days:,} of {days:,}: {self.readings:,} readings, {rate / 1e6:.2f} M a second, "
                f"{left_s / 60:.1f} min left, worker {peak_bytes() / 1e6:.0f} MB",
                flush=True,
            )

    def add(self, spans: Sequence[Span]) -> float:
        """Write these files, take them in, delete them; the seconds of taking them in."""
        began = time.perf_counter()
        written = self.write(spans)
        self.writing_s += time.perf_counter() - began
        cost = cost_of(self.server, self.plant.ingest, [each.path for each in written])
        self.taking_s += cost.clock_s
        self.most_disk = max(self.most_disk, stored_bytes(self.plant.folder) + self.database_bytes())
        for span, each in zip(spans, written, strict=True):
            self.totals[span.machine] = self.totals.get(span.machine, 0) + each.totals
            self.counts[span.machine] += each.readings
            each.path.unlink()
        self.files += len(written)
        readings = sum(each.readings for each in written)
        self.readings += readings
        self.waves.append((readings, cost))
        return cost.clock_s

    def write(self, spans: Iterable[Span]) -> list[Written]:
        """Write files, in two processes."""
        inbox = self.plant.folder / "inbox"
        return list(self.writers.map(partial(write_span, self.machines, inbox=inbox), spans, chunksize=4))

    def tenths(self) -> list[tuple[float, float]]:
        """Microseconds that a reading took, on the clock and of processors, by tenths: flat, or it is not linear."""
        waves = [(readings, cost) for readings, cost in self.waves if readings > LARGE]
        edges = [len(waves) * tenth // 10 for tenth in range(11)]
        parts = [waves[begin:end] for begin, end in pairwise(edges) if end > begin]
        found = []
        for part in parts:
            readings = sum(own for own, _ in part) / 1e6
            clock_s, cpu_s = (
                sum(each) for each in zip(*((own.clock_s, own.cpu_s) for _, own in part), strict=True)
            )
            found.append((round(clock_s / readings, 3), round(cpu_s / readings, 3)))
        return found

    def database_bytes(self) -> int:
        """What PostgreSQL holds of it."""
        with self.plant.connect() as connection:
            row = connection.execute("select pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])

    def span(self, machine: int, day: int) -> Span:
        """The file of a day, but for what comes late."""
        return Span(machine=machine, day=day, hole=HOLE if day == 0 and machine < self.holes else None)
