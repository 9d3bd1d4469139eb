"""Random files of two subjects, and one dataset that takes them: what histories of arrivals are made of."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from disarray.control import blacklist
from tests.reading_lines import HEADER, reading_line

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plant import Plant

DATASET = """
[[dataset]]
name = "line"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "Europe/Berlin"
segment = "2 h"
channel = "sensor"
order_by = ["part"]
%(key)s
[dataset.attributes."*"]
limit = 5.0
[dataset.columns.sensor]
type = "string"
[dataset.columns.part]
type = "int64"
[dataset.columns.work_order]
type = "string"
[dataset.columns.volts]
type = "float64"
[dataset.metrics.energy]
kind = "integral"
input = "volts * 0.1"
max_gap = "40 min"
break_on = ["work_order"]
[dataset.metrics.held]
kind = "integral"
method = "previous"
input = "volts"
max_gap = "3 h"
reset_on = ["work_order"]
[dataset.metrics.volts_sum]
kind = "sum"
input = "volts"
reset_on = ["work_order"]
[dataset.metrics.in_spec]
kind = "count"
where = "volts < limit"
reset_on = ["work_order"]
[dataset.metrics.parts]
kind = "increase"
input = "part"
[dataset.metrics.lowest]
kind = "min"
input = "volts"
[dataset.metrics.highest]
kind = "max"
input = "part"
reset_on = ["work_order"]
[dataset.rollups.shift]
bucket = "shifts"
shifts = [{ name = "early", start = "06:00" }, { name = "late", start = "14:00" }, { name = "night", start = "22:00" }]
[dataset.rollups.shift.aggregates]
readings = "count"
mean = { function = "avg", input = "volts" }
spread = { function = "stddev", input = "volts" }
last_part = { function = "last", input = "part" }
[dataset.rollups.quarter]
bucket = "15 min"
[dataset.rollups.quarter.aggregates]
good = { function = "count", where = "volts < 5.0" }
total = { function = "sum", input = "volts" }
"""

# Around the night in which the clocks of Berlin go back.
START = datetime(2026, 10, 24, 20, tzinfo=UTC)


@dataclass
class Delivery:
    """One file as it comes: its text, cut into growth steps."""

    name: str
    text: str
    steps: list[int] = field(default_factory=list)


def rows(generator: random.Random, count: int) -> list[str]:
    """Readings of fifteen hours, in no order."""
    return [
        reading_line(generator, START + timedelta(minutes=generator.randrange(0, 900))) for _ in range(count)
    ]


def deliveries(seed: int) -> list[Delivery]:
    """Overlapping files of two subjects, with copies, prefixes, disorder inside and repeated lines."""
    generator = random.Random(seed)
    made: list[Delivery] = []
    for number in range(generator.randrange(2, 6)):
        subject = generator.choice(["L1", "L1", "L2"])
        lines = rows(generator, generator.randrange(1, 25))
        if made and generator.random() < 0.3:
            # A redelivery: the same bytes, or the same readings among others.
            lines = made[-1].text.splitlines(keepends=True)[1:] + (
                rows(generator, 3) if generator.random() < 0.5 else []
            )
        text = HEADER + "".join(lines)
        steps = sorted(generator.randrange(0, len(text)) for _ in range(generator.randrange(0, 3)))
        made.append(Delivery(f"{subject}/{number}.csv", text, steps))
    return made


def remove_and_allow(plant: Plant, path: Path) -> None:
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(path), path.parent.name, reason="a test", by="tester")
    plant.drain()
    with plant.pool.connection() as connection:
        blacklist.allow_file(connection, str(path), reason="a test", by="tester")
    plant.drain()
