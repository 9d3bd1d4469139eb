"""A seeded factory: tools that measure parts, and reports of theirs that arrive in disarray."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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
# One tool after the other ends its report, and seven in ten are held up on their way: so 38 % of them land behind one
# that ended later, the last of them some forty minutes behind.
MINUTES_BETWEEN_TOOLS = 3
SHARE_HELD_UP = 0.7
MEAN_DELAY_MINUTES, LONGEST_DELAY_MINUTES = 15, 40


@dataclass(frozen=True)
class Report:
    """What a tool measured in four hours."""

    tool: str
    start: datetime
    text: str

    @property
    def name(self) -> str:
        """Where it lands in the inbox."""
        return f"{self.tool}/report_{self.start:%m%d_%H%M}.csv"

    @property
    def end(self) -> datetime:
        """When the tool was done with it."""
        return self.start + timedelta(hours=REPORT_HOURS)


@dataclass(frozen=True)
class Arrival:
    """A file that lands at some time, whole or as far as it has grown."""

    at: datetime
    name: str
    text: str
    ends: datetime

    @property
    def is_copy(self) -> bool:
        """Whether the same bytes landed before, under another name."""
        return "_copy" in self.name


@dataclass(frozen=True)
class Factory:
    """Tools over some days; the same seed gives the same bytes at the same times."""

    tools: int
    days: int
    seed: int
    seconds_a_part: int = SECONDS_A_PART

    @property
    def end(self) -> datetime:
        """When all but the stragglers have landed."""
        return START + timedelta(days=self.days)

    def arrivals(self) -> list[Arrival]:
        """Everything but the backlog, in the order of landing: late by minutes, some twice, some growing."""
        generator = random.Random(self.seed)  # noqa: S311 - a factory, not a secret
        landed: list[Arrival] = []
        for report in self._reports():
            if self.is_backlog(report):
                continue
            if generator.random() < 0.2:
                # Seen while the tool still writes: it ends in the middle of a line.
                cut = report.text.index("\n", len(report.text) // 2) - 3
                half = report.start + timedelta(hours=REPORT_HOURS / 2)
                landed.append(Arrival(half, report.name, report.text[:cut], half))
            at = report.end + timedelta(minutes=_delay_minutes(generator))
            landed.append(Arrival(at, report.name, report.text, report.end))
            if generator.random() < 0.05:
                copy = report.name.replace(".csv", "_copy.csv")
                landed.append(Arrival(at + timedelta(hours=3), copy, report.text, report.end))
        return sorted(landed, key=lambda arrival: (arrival.at, arrival.name))

    def backlog(self) -> list[Arrival]:
        """What one tool kept to itself for two days, landing when everything else is there."""
        return [
            Arrival(self.end, report.name, report.text, report.end)
            for report in self._reports()
            if self.is_backlog(report)
        ]

    def damaged(self) -> Arrival:
        """A file that was cut off in the middle of being packed."""
        return Arrival(self.end, "TOOL03/report_damaged.csv", "\x1f\x8b\x08 no gzip at all", self.end)

    def from_beyond_the_horizon(self) -> Arrival:
        """A report of a time so long ago that somebody has to look at it first."""
        start = START - timedelta(days=60)
        text = self._text(random.Random(self.seed), start, order=0)  # noqa: S311
        return Arrival(self.end, "TOOL05/report_found_in_a_drawer.csv", text, start)

    def reports_of(self, tool: str) -> list[Report]:
        """What one tool measured, in order: the sample of a project that begins."""
        return [report for report in self._reports() if report.tool == tool]

    def is_backlog(self, report: Report) -> bool:
        """Whether the tool was offline then."""
        offline = START + timedelta(days=OFFLINE_FROM)
        return report.tool == LATE_TOOL and offline <= report.start < offline + timedelta(days=OFFLINE_DAYS)

    def _reports(self) -> Iterator[Report]:
        for number in range(self.tools):
            for hours in range(0, self.days * 24, REPORT_HOURS):
                generator = random.Random(f"{self.seed}/{number}/{hours}")  # noqa: S311
                start = START + timedelta(hours=hours, minutes=number * MINUTES_BETWEEN_TOOLS)
                yield Report(f"TOOL{number + 1:02d}", start, self._text(generator, start, order=hours // 36))

    def _text(self, generator: random.Random, start: datetime, *, order: int) -> str:
        return "".join(_lines(generator, start, order=order, seconds_a_part=self.seconds_a_part))


def _delay_minutes(generator: random.Random) -> float:
    if generator.random() >= SHARE_HELD_UP:
        return generator.random() / 2
    return min(generator.expovariate(1 / MEAN_DELAY_MINUTES), LONGEST_DELAY_MINUTES - 2 * generator.random())


def _lines(generator: random.Random, start: datetime, *, order: int, seconds_a_part: int) -> Iterator[str]:
    yield "time,part,work_order,width\n"
    for part in range(REPORT_HOURS * 3600 // seconds_a_part):
        at = start + timedelta(seconds=part * seconds_a_part)
        yield f"{at:%Y-%m-%dT%H:%M:%S}Z,{part},WO{order:03d},{generator.gauss(10, 0.05):.4f}\n"


def out_of_order_percent(arrivals: Sequence[Arrival]) -> int:
    """The share of landings that come behind one that ended later: what a system for ordered data would call late."""
    newest, late = START, 0
    for arrival in arrivals:
        late += arrival.ends < newest
        newest = max(newest, arrival.ends)
    return round(100 * late / max(1, len(arrivals)))


def land(inbox: Path, arrival: Arrival) -> Path:
    """Write a file as it arrives."""
    path = inbox / arrival.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(arrival.text, encoding="latin-1")
    return path
