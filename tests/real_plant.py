"""Files that instruments wrote, as a plant would get them on its worst day: cut into pieces and shuffled."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from disarray.cli.support.notifying import notifications_of
from disarray.control import files

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from tests.plant import Plant

_COMMON = """
[[dataset]]
name = "{name}"
roots = ["inbox/{name}"]
files = ["**/*"]
format = "{format}"
zone = "{zone}"
"""
_BY_FOLDER = "subject = { path = '^(?P<subject>[^/]+)/' }\n"

QUAKES = (
    _COMMON.format(name="quakes", format="csv", zone="UTC")
    + _BY_FOLDER
    + """
event_time = { from = "time", layouts = ["iso"] }
segment = "2 d"
key = ["id"]
order_by = ["id"]
[dataset.columns.id]
type = "string"
[dataset.columns.mag]
type = "float64"
[dataset.columns.status]
type = "string"
[dataset.metrics.quakes]
kind = "count"
[dataset.metrics.magnitude]
kind = "sum"
input = "mag"
[dataset.metrics.rate]
kind = "integral"
input = "mag"
max_gap = "6 h"
break_on = ["status"]
[dataset.metrics.since_review]
kind = "max"
input = "mag"
reset_on = ["status"]
[dataset.rollups.daily]
bucket = "1 day"
[dataset.rollups.daily.aggregates]
quakes = "count"
mean = { function = "avg", input = "mag" }
spread = { function = "stddev", input = "mag" }
"""
)
MACCOR = (
    _COMMON.format(name="maccor", format="maccor", zone="America/Los_Angeles")
    + _BY_FOLDER
    + """
segment = "8 h"
key = ["rec"]
order_by = ["rec"]
[dataset.metrics.charged]
kind = "integral"
input = "case when state = 'C' then abs(amps) else 0.0 end / 3600.0"
max_gap = "1 h"
break_on = ["cycle", "step", "state"]
[dataset.metrics.discharged]
kind = "integral"
input = "case when state = 'D' then abs(amps) else 0.0 end / 3600.0"
max_gap = "1 h"
break_on = ["cycle", "step", "state"]
[dataset.metrics.records]
kind = "count"
[dataset.rollups.shift]
bucket = "shifts"
shifts = [{ name = "day", start = "06:00" }, { name = "night", start = "18:00" }]
[dataset.rollups.shift.aggregates]
highest = { function = "max", input = "volts" }
"""
)
NEWARE = (
    _COMMON.format(name="neware", format="neware", zone="Europe/Oslo")
    + _BY_FOLDER
    + """
segment = "12 h"
key = ["record"]
order_by = ["record"]
[dataset.metrics.charged]
kind = "increase"
input = "charge_ah"
[dataset.metrics.discharged]
kind = "increase"
input = "discharge_ah"
[dataset.metrics.in_step]
kind = "sum"
input = "amps"
reset_on = ["cycle", "step"]
"""
)
SUNNYBEAM = (
    _COMMON.format(name="sunnybeam", format="sunnybeam", zone="Europe/Berlin")
    + """
subject = { preamble = "serial" }
segment = "7 d"
key = []
[dataset.metrics.yielded]
kind = "increase"
input = "energy"
[dataset.rollups.monthly]
bucket = "1 month"
[dataset.rollups.monthly.aggregates]
first = { function = "first", input = "energy" }
last = { function = "last", input = "energy" }
"""
)
DANFOSS = (
    _COMMON.format(name="danfoss", format="danfoss", zone="Europe/Rome")
    + _BY_FOLDER
    + """
segment = "1 d"
channel = "serial"
key = []
[dataset.metrics.yielded]
kind = "increase"
input = "energy_today"
[dataset.rollups.daily]
bucket = "1 day"
[dataset.rollups.daily.aggregates]
energy = { function = "max", input = "energy_today" }
"""
)
DESCRIPTION = QUAKES + MACCOR + NEWARE + SUNNYBEAM + DANFOSS


def quakes_by_update(real_data: Path) -> list[tuple[str, str, str]]:
    """The network, the event time and the line of every event, in the order in which they were last updated."""
    text = (real_data / "usgs_quakes" / "all_month.csv").read_text()
    lines = text.splitlines(keepends=True)
    rows = list(csv.DictReader(lines))
    assert len(rows) == len(lines) - 1
    events = [
        (row["updated"], row["net"], row["time"], line) for row, line in zip(rows, lines[1:], strict=True)
    ]
    return [(net, at, line) for _, net, at, line in sorted(events)]


def quake_header(real_data: Path) -> str:
    with (real_data / "usgs_quakes" / "all_month.csv").open() as file:
        return file.readline()


def in_pieces(path: Path, *, header_lines: int, pieces: int) -> list[bytes]:
    """A file cut into several, each with the lines that come before the first reading; some lines are in two."""
    lines = path.read_bytes().splitlines(keepends=True)
    head, body = lines[:header_lines], lines[header_lines:]
    size = -(-len(body) // pieces)
    return [b"".join(head + body[max(0, at - 7) : at + size]) for at in range(0, len(body), size)]


def write_pieces(plant: Plant, real_data: Path) -> list[Path]:
    """All instruments but the earthquakes, cut into pieces; sunnybeam comes in daily files, danfoss in one."""
    found = []
    for name, source, header_lines, pieces in (
        ("maccor/CH70", "maccor_ch70/xTESLADIAG_000019_CH70.070", 2, 9),
        ("maccor/CH34", "maccor_ch70/PreDiag_000229_000229_truncated.034", 2, 5),
        ("neware/UIO", "neware_flat/neware_uio.csv", 1, 7),
        ("danfoss/ROOF", "danfoss_pv/2019-09-26/details.txt", 1, 3),
    ):
        for number, content in enumerate(
            in_pieces(real_data / source, header_lines=header_lines, pieces=pieces)
        ):
            found.append(put(plant, f"{name}/{number}.txt", content))
    for path in sorted((real_data / "sunnybeam_pv").glob("*/*.csv")):
        found.append(put(plant, f"sunnybeam/{path.parent.name}/{path.name}", path.read_bytes()))
    return found


def write_whole(plant: Plant, real_data: Path) -> list[Path]:
    """The same files as the instruments wrote them."""
    sources = {
        "maccor/CH70": "maccor_ch70/xTESLADIAG_000019_CH70.070",
        "maccor/CH34": "maccor_ch70/PreDiag_000229_000229_truncated.034",
        "neware/UIO": "neware_flat/neware_uio.csv",
        "danfoss/ROOF": "danfoss_pv/2019-09-26/details.txt",
    }
    found = [
        put(plant, f"{name}/whole.txt", (real_data / source).read_bytes()) for name, source in sources.items()
    ]
    for path in sorted((real_data / "sunnybeam_pv").glob("*/*.csv")):
        found.append(put(plant, f"sunnybeam/{path.parent.name}/{path.name}", path.read_bytes()))
    return found


def put(plant: Plant, name: str, content: bytes) -> Path:
    path = plant.inbox / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def ingest(plant: Plant, paths: Sequence[Path]) -> None:
    """One batch of files that are complete, as a person would name them."""
    with plant.pool.connection() as connection:
        files.enqueue_files(connection, notifications_of([str(path) for path in paths], plant.datasets))
    assert not any(report.failed for report in plant.drain())


def ingest_shuffled(plant: Plant, paths: Sequence[Path], source: random.Random, *, batches: int) -> None:
    """All files in random order, in some batches."""
    shuffled = source.sample(list(paths), k=len(paths))
    size = -(-len(shuffled) // batches)
    for at in range(0, len(shuffled), size):
        ingest(plant, shuffled[at : at + size])
