"""What is in a recorded database: three datasets, and of each what a schema has to carry over."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from disarray.control import blacklist
from disarray.control.files import Reason
from disarray.demo.factory import LATE_TOOL, Factory
from tests.reading_lines import HEADER, reading_line

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.control.connections import Connection
    from tests.plant import Plant

DESCRIPTION = """
[[dataset]]
name = "tools"
roots = ["inbox/tools"]
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
[dataset.metrics.deviation]
kind = "sum"
input = "abs(width - 10.0)"
[dataset.rollups.hourly]
bucket = "1 hour"
[dataset.rollups.hourly.aggregates]
parts = "count"
mean_width = { function = "avg", input = "width" }

[[dataset]]
name = "cells"
roots = ["inbox/cells"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "Europe/Berlin"
segment = "3 h"
channel = "sensor"
order_by = ["part"]
horizon = "2 d"
restate_after = "1 h"
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
spread = { function = "stddev", input = "volts" }
last_part = { function = "last", input = "part" }

[[dataset]]
name = "meters"
roots = ["inbox/meters"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 d"
store = "timescale"
[dataset.columns.watts]
type = "float64"
[dataset.metrics.work]
kind = "integral"
input = "watts"
max_gap = "2 h"
"""
METERS_HEADER = "time,watts\n"
BEGIN = datetime(2025, 10, 25, 6, tzinfo=UTC)

# Under these names the plant keeps what arrives only after the upgrade: the path in the inbox follows.
HELD_BACK = "held_back"


def write_history(plant: Plant) -> None:
    """Files that came in order, late, twice, with a bad line, and while they grew; decisions about some of them."""
    reports = Factory(tools=8, days=3, seed=7).reports_of(LATE_TOOL)
    in_time = [report for report in reports if report not in (reports[4], reports[8])]
    for report in in_time:
        plant.notify(plant.write(f"tools/{report.name}", report.text))
    plant.drain()
    plant.ingest(plant.write(f"tools/{reports[4].name}", reports[4].text))
    _hold_back(plant, f"tools/{reports[8].name}", reports[8].text)

    first, second = cells(1, from_hour=24), cells(2, from_hour=30)
    plant.ingest(plant.write("cells/C1/first.csv", HEADER + first))
    plant.ingest(plant.write("cells/C1/second.csv", HEADER + second + "2025-10-26T10:00:00Z,a,none,W1,1\n"))
    grown = plant.write("cells/C1/grown.csv", HEADER + cells(3, from_hour=60)[:400])
    plant.ingest(grown)
    plant.ingest(plant.write("cells/C1/grown.csv", HEADER + cells(3, from_hour=60)))
    _hold_back(plant, "cells/C1/grown.csv", HEADER + cells(3, from_hour=60) + cells(4, from_hour=62))
    plant.ingest(plant.write("cells/C1/copy_of_first.csv", HEADER + first))
    plant.ingest(plant.write("cells/C1/between.csv", HEADER + cells(5, from_hour=40)))
    removed = plant.write("cells/C1/removed.csv", HEADER + cells(6, from_hour=36))
    plant.ingest(removed)
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(removed), "C1", reason="a loose cable", by="ada")
    plant.drain()
    plant.ingest(plant.write("cells/C1/too_late.csv", HEADER + cells(7, from_hour=0)))
    _hold_back(plant, "cells/C1/last.csv", HEADER + cells(8, from_hour=50))
    open_end = plant.write("cells/C2/open_end.csv", HEADER + cells(9, from_hour=3).removesuffix("\n"))
    plant.ingest(open_end)
    plant.ingest(open_end, reason=Reason.QUIET)

    plant.ingest(plant.write("meters/M1/second.csv", METERS_HEADER + meters(1, day=2)))
    plant.ingest(plant.write("meters/M1/first.csv", METERS_HEADER + meters(2, day=0)))
    _hold_back(plant, "meters/M1/between.csv", METERS_HEADER + meters(3, day=1))


def cells(seed: int, *, from_hour: int) -> str:
    """Some readings of six hours."""
    generator, begin = random.Random(seed), BEGIN + timedelta(hours=from_hour)
    times = [begin + timedelta(minutes=generator.randrange(360)) for _ in range(40)]
    return "".join(reading_line(generator, at) for at in times)


def meters(seed: int, *, day: int) -> str:
    """A day of a meter."""
    generator = random.Random(seed)
    return "".join(
        f"{(BEGIN + timedelta(days=day, minutes=20 * step)).isoformat()},{generator.randrange(5000) / 10}\n"
        for step in range(60)
    )


def numbers(connection: Connection) -> dict[str, list[list[str]]]:
    """Every number that is derived from files, with all of its bits."""
    queries = {
        "segments": """
            select dataset, subject_key, segment_us, readings, duplicates, digest
            from disarray.segment
            where dataset in ('tools', 'cells', 'meters')
            """,
        "metrics": """
            select dataset, subject_key, metric, channel, segment_us, piece, points, total_float, total_int, base_float,
                base_int, before_float, before_int
            from disarray.segment_metric
            where dataset in ('tools', 'cells', 'meters')
            """,
        "rollups": """
            select dataset, subject_key, rollup, aggregate, channel, bucket_us, segment_us, label, points, value_float,
                value_int, at_us, pivot, offset_sum, offset_square_sum
            from disarray.rollup
            where dataset in ('tools', 'cells', 'meters')
            """,
        "readings": "select subject_key, event_at at time zone 'UTC', ordinal, watts from telemetry.meters_running",
        "parked": "select source_uri is not null, segment_us, readings from disarray.fragment where state = 'parked'",
    }
    return {
        name: sorted([repr(value) for value in row] for row in connection.execute(query.encode()))
        for name, query in queries.items()
    }


def _hold_back(plant: Plant, name: str, text: str) -> Path:
    path = plant.inbox.parent / HELD_BACK / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
