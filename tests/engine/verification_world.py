"""A dataset with every kind of metric and aggregate, and files for it that leave nothing out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

START = datetime(2025, 10, 25, 22, tzinfo=UTC)  # in the night that follows, clocks in Europe go back

DESCRIPTION = """
[[dataset]]
name = "tools"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "Europe/Berlin"
segment = "1 h"
channel = "head"
order_by = ["shot"]
%(key)s
[dataset.columns.head]
type = "string"
[dataset.columns.watts]
type = "float64"
[dataset.columns.shot]
type = "int64"
[dataset.columns.good]
type = "bool"
[dataset.columns.work_order]
type = "string"
[dataset.columns.opened]
type = "timestamp"
layouts = ["iso"]
[dataset.attributes."*"]
capacity = 2.5
[dataset.attributes.T2]
capacity = 3.7
[dataset.metrics.energy]
kind = "integral"
input = "watts / capacity"
max_gap = "10 min"
break_on = ["work_order", "good"]
[dataset.metrics.held_energy]
kind = "integral"
method = "previous"
input = "watts"
where = "good"
max_gap = "40 min"
reset_on = ["work_order"]
[dataset.metrics.readings]
kind = "count"
[dataset.metrics.good_since_order]
kind = "count"
where = "good"
reset_on = ["work_order", "opened"]
[dataset.metrics.work]
kind = "sum"
input = "case when good then watts * 0.1 end"
[dataset.metrics.work_since_order]
kind = "sum"
input = "watts"
reset_on = ["work_order"]
[dataset.metrics.shots]
kind = "increase"
input = "shot"
[dataset.metrics.shots_since_order]
kind = "increase"
input = "shot * 0.25"
reset_on = ["work_order"]
[dataset.metrics.lowest]
kind = "min"
input = "watts"
[dataset.metrics.highest_since_order]
kind = "max"
input = "shot"
reset_on = ["opened"]
[dataset.rollups.quarter]
bucket = "15 min"
[dataset.rollups.quarter.aggregates]
readings = "count"
mean = { function = "avg", input = "watts" }
spread = { function = "stddev", input = "watts", where = "good" }
shots = { function = "sum", input = "shot" }
[dataset.rollups.shift]
bucket = "shifts"
shifts = [{ name = "early", start = "06:00" }, { name = "night", start = "22:30" }]
[dataset.rollups.shift.aggregates]
low = { function = "min", input = "watts" }
high = { function = "max", input = "shot" }
opening = { function = "first", input = "watts", where = "good" }
closing = { function = "last", input = "shot" }
good = { function = "count", input = "good", where = "good" }
"""


def report(source: random.Random, *, hour: float, rows: int, step: int = 47) -> str:
    """A file of one tool: disorder, ties in time, NULLs, repeats, two heads and a change of work orders."""
    lines = []
    at = START + timedelta(hours=hour)
    order = source.choice(["W1", "W2", "Ä3"])
    for row in range(rows):
        at += timedelta(seconds=source.choice([0, step, step, -step, 3 * step]))
        if source.random() < 0.02:
            order = source.choice(["W1", "W2", "Ä3", ""])
        watts = source.choice([f"{source.uniform(-5, 300):.6f}", "0.1", "1e3", ""])
        opened = (
            source.choice(["2025-10-01T06:00:00Z"] * 9 + [""]) if row % 40 == 0 else "2025-10-01T06:00:00Z"
        )
        lines.append(
            f"{at.isoformat()},{source.choice(['L', 'R'])},{watts},{source.choice([row % 17, ''])},"
            f"{source.choice(['true', 'true', 'false', ''])},{order},{opened}\n"
        )
        if source.random() < 0.05:
            lines.append(lines[-1])
    return "time,head,watts,shot,good,work_order,opened\n" + "".join(lines)
