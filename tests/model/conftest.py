"""A dataset that uses every key once, and a reader for variations of it."""

from __future__ import annotations

import tomllib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from disarray.model.description.dataset_reader import read_datasets
from disarray.model.description.spec_table import Problems

if TYPE_CHECKING:
    from disarray.model.description.dataset import Dataset

CYCLER = """
title = "Cycler"
delimiter = "\\t"
decimal = "."
thousands = ","
quote = ""
quote_escape = "double"
comment = "#"
compression = "auto"
encodings = ["utf-8", "windows-1252"]
null_tokens = ["N/A"]
true_tokens = ["yes"]
false_tokens = ["no"]
strip = true
trailing_delimiter = false
short_rows = "reject"
max_line_bytes = 65536
reread = "tail"

[preamble]
max_lines = 40
[preamble.fields]
serial = 'Serial: (?P<value>\\S+)'
started = 'Started: (?P<value>.*)'

[header]
pattern = '^Rec\\t'
units_row = true
repeats = true

[event_time]
from = ["Date", "Stamp"]
layouts = ["%Y-%m-%d %H:%M:%S"]

[columns]
rec = { from = "Rec", type = "int64", nullable = false }
volts = { match = 'Voltage ?\\(V\\)', type = "float64", unit = "V", nonfinite = "null" }
state = { from = "State", type = "string", required = false }
unit_serial = { preamble = "serial", type = "string" }
changed = { from = "Changed", type = "timestamp", layouts = "iso", required = false }

[columns.amps]
from = "Current(A)"
type = "float64"
scale = 1.0
offset = 0.0
or = [{ from = "Current(mA)", scale = 0.001 }]
"""

DATASET = """
[[dataset]]
name = "cycler"
description = "Cells in the west lab"
roots = ["share"]
files = ["cycler/**/*.txt"]
format = "cycler"
subject = { path = 'cycler/(?P<subject>[A-Z]+[0-9]+)/' }
channel = "state"
zone = "Europe/Berlin"
only_columns = ["rec", "amps", "volts", "state", "unit_serial", "changed", "temperature"]
order_by = ["rec"]
key = ["rec"]
conflict = "path"
segment = "6 h"
horizon = "40 d"
future_tolerance = "10 min"
back_correction_window = "1 h"
quiet_after = "5 min"
on_shrink = "replace"
reread = "whole"
rejects = { max_share = 0.01, max_count = 100 }
restate_after = "2 h"
store = "timescale"
retain = "400 d"

[dataset.event_time]
from = "Date"

[dataset.columns]
temperature = { from = "T1", type = "float64", unit = "°C", required = false }

[dataset.attributes."*"]
capacity = 5
[dataset.attributes.CELL7]
capacity = 4.8
order = "A-17"

[dataset.metrics.charge]
kind = "integral"
input = "amps / 3600.0"
where = "state = 'C'"
method = "previous"
max_gap = "10 min"
break_on = ["state"]
reset_on = ["order"]
unit = "Ah"

[dataset.metrics.cycles]
kind = "sum"
input = "abs(amps) / capacity"

[dataset.rollups.hourly]
bucket = "1 hour"
zone = "UTC"
[dataset.rollups.hourly.aggregates]
readings = "count"
warm = { function = "avg", input = "volts", where = "temperature > 30.0" }

[dataset.rollups.by_shift]
bucket = "shifts"
shifts = [
    { name = "early", start = "06:00" },
    { name = "late", start = "14:00" },
    { name = "night", start = "22:00" },
]
[dataset.rollups.by_shift.aggregates]
top = { function = "max", input = "volts" }
"""


def read_document(document: dict[str, Any], problems: Problems) -> tuple[Dataset, ...]:
    descriptions = {"cycler": tomllib.loads(CYCLER), "csv": {"delimiter": ","}}
    return read_datasets(
        document, problems=problems, descriptions=descriptions, folder=PurePosixPath("/project")
    )


@pytest.fixture
def document() -> dict[str, Any]:
    return tomllib.loads(DATASET)


class Specs:
    """Reads dataset documents; `faults` gives the problems instead of raising them."""

    def one(self, document: dict[str, Any]) -> Dataset:
        problems = Problems("disarray.toml")
        (dataset,) = read_document(document, problems)
        problems.raise_if_any()
        return dataset

    def faults(self, document: dict[str, Any]) -> list[str]:
        problems = Problems("disarray.toml")
        read_document(document, problems)
        return problems.lines

    def known_keys(self, document: dict[str, Any]) -> dict[str, set[str]]:
        problems = Problems("disarray.toml")
        read_document(document, problems)
        return problems.known_keys


@pytest.fixture
def specs() -> Specs:
    return Specs()
