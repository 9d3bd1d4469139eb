"""A seeded factory: tools that measure parts, and reports of theirs that arrive in disarray."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATASET = """\
[[dataset]]
name = "tools"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 d"
key = ["part"]
horizon = "40 d"

[dataset.columns.part]
type = "int64"
[dataset.columns.work_order]
type = "string"
[dataset.columns.width]
type = "float64"

[dataset.metrics.in_spec_total]
kind = "count"
where = "width > 9.9 and width < 10.1"
[dataset.metrics.in_spec_of_order]
kind = "count"
where = "width > 9.9 and width < 10.1"
reset_on = ["work_order"]
[dataset.metrics.deviation]
kind = "sum"
input = "abs(width - 10.0)"

[dataset.rollups.shift]
bucket = "shifts"
shifts = [{ name = "early", start = "06:00" }, { name = "late", start = "14:00" }, { name = "night", start = "22:00" }]
[dataset.rollups.shift.aggregates]
parts = "count"
mean_width = { function = "avg", input = "width" }
"""

START = datetime(2026, 9, 1, tzinfo=UTC)
REPORT_HOURS = 4
SECONDS_A_PART = 120
LATE_TOOL = "TOOL07"
OFFLINE_FROM, OFFLINE_DAYS = 2, 2


@dataclass(frozen=True)
class Arrival:
    """A file that lands at some time, whole or as far as it has grown."""

    at: datetime
    name: str
    text: str


@dataclass(frozen=True)
class Factory:
    """Tools over some days; the same seed gives the same bytes at the same times."""

    tools: int
    days: int
    seed: int

    def arrivals(self) -> list[Arrival]:
        """Everything but the backlog, in the order of landing: late by minutes, some twice, some growing."""
        generator = random.Random(self.seed)  # noqa: S311 - a factory, not a secret
        landed: list[Arrival] = []
        for tool, start, text in self._reports(generator):
            if self.is_backlog(tool, start):
                continue
            name = f"{tool}/report_{start:%m%d_%H}.csv"
            end = start + timedelta(hours=REPORT_HOURS)
            if generator.random() < 0.2:
                cut = text.index("\n", len(text) // 2) - 3
                landed.append(Arrival(start + timedelta(hours=2), name, text[:cut]))
            # Two fifths of the reports are held up by something, the worst of them for some forty minutes.
            delay = generator.expovariate(1 / 12) if generator.random() < 0.4 else generator.random() * 0.5
            landed.append(Arrival(end + timedelta(minutes=min(delay, 40)), name, text))
            if generator.random() < 0.05:
                landed.append(Arrival(end + timedelta(hours=3), name.replace(".csv", "_copy.csv"), text))
        return sorted(landed, key=lambda arrival: (arrival.at, arrival.name))

    def backlog(self) -> list[Arrival]:
        """What one tool kept to itself for two days, landing when everything else is there."""
        generator = random.Random(self.seed)  # noqa: S311
        end = START + timedelta(days=self.days)
        return [
            Arrival(end, f"{tool}/report_{start:%m%d_%H}.csv", text)
            for tool, start, text in self._reports(generator)
            if self.is_backlog(tool, start)
        ]

    def damaged(self) -> Arrival:
        """A file that was cut off in the middle of being packed."""
        return Arrival(
            START + timedelta(days=self.days), "TOOL03/report_damaged.csv", "\x1f\x8b\x08 no gzip at all"
        )

    def from_beyond_the_horizon(self) -> Arrival:
        """A report of a time so long ago that somebody has to look at it first."""
        text = "".join(self._report(random.Random(self.seed), START - timedelta(days=60), order=0))  # noqa: S311
        return Arrival(START + timedelta(days=self.days), "TOOL05/report_found_in_a_drawer.csv", text)

    def is_backlog(self, tool: str, start: datetime) -> bool:
        """Whether the tool was offline then."""
        offline = START + timedelta(days=OFFLINE_FROM)
        return tool == LATE_TOOL and offline <= start < offline + timedelta(days=OFFLINE_DAYS)

    def _reports(self, generator: random.Random) -> Iterator[tuple[str, datetime, str]]:
        for number in range(1, self.tools + 1):
            for hours in range(0, self.days * 24, REPORT_HOURS):
                own = random.Random(f"{self.seed}/{number}/{hours}")  # noqa: S311
                start = START + timedelta(hours=hours)
                yield f"TOOL{number:02d}", start, "".join(self._report(own, start, order=hours // 36))

    def _report(self, generator: random.Random, start: datetime, *, order: int) -> Iterator[str]:
        yield "time,part,work_order,width\n"
        for part in range(REPORT_HOURS * 3600 // SECONDS_A_PART):
            at = start + timedelta(seconds=part * SECONDS_A_PART)
            yield f"{at:%Y-%m-%dT%H:%M:%S}Z,{part},WO{order:03d},{generator.gauss(10, 0.05):.4f}\n"


def land(inbox: Path, arrival: Arrival) -> Path:
    """Write a file as it arrives."""
    path = inbox / arrival.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(arrival.text, encoding="latin-1")
    return path
