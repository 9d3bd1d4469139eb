"""A plant with channels, resets and every kind of metric, and its numbers written out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATASET = """
[[dataset]]
name = "cells"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 h"
key = []
channel = "slot"
[dataset.columns.slot]
type = "string"
[dataset.columns.amps]
type = "float64"
[dataset.columns.good]
type = "int64"
[dataset.columns.job]
type = "string"
[dataset.metrics.charge]
kind = "integral"
input = "amps"
max_gap = "30 min"
unit = "As"
[dataset.metrics.good_total]
kind = "sum"
input = "good"
[dataset.metrics.good_in_job]
kind = "sum"
input = "good"
reset_on = ["job"]
[dataset.metrics.peak]
kind = "max"
input = "amps"
where = "good > 0"
unit = "A"
[dataset.metrics.highest]
kind = "increase"
input = "amps"
[dataset.rollups.quarters]
bucket = "15 min"
[dataset.rollups.quarters.aggregates]
readings = "count"
mean = { function = "avg", input = "amps" }
spread = { function = "stddev", input = "amps" }
[dataset.rollups.daily]
bucket = "1 day"
[dataset.rollups.daily.aggregates]
good = { function = "sum", input = "good" }
last = { function = "last", input = "amps" }
"""


def in_store(description: str, store: str) -> str:
    """The description with its readings in another store."""
    return description.replace("[[dataset]]\n", f'[[dataset]]\nstore = "{store}"\n')


def with_dimensions(description: str) -> str:
    """The description with the values of its string columns in tables of their own."""
    return description.replace('type = "string"\n', 'type = "string"\ndimension = true\n')


@pytest.fixture
def lake_plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """The same plant with its readings in the lake."""
    built = Plant(tmp_path, dsn, description=DATASET)
    yield built
    built.pool.close()


@pytest.fixture
def table_plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """The same plant with its readings in a table."""
    built = Plant(tmp_path, dsn, description=in_store(DATASET, "timescale"))
    yield built
    built.pool.close()


@pytest.fixture(params=["lake", "timescale"])
def plant(request: pytest.FixtureRequest, tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant whose subjects have several channels, its readings in either store: what holds for one holds for both."""
    built = Plant(tmp_path, dsn, description=in_store(DATASET, request.param))
    yield built
    built.pool.close()
