"""A workplace on a real database, with the kernels run in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATASET = """
[[dataset]]
name = "tools"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 h"
key = []
[dataset.columns.watts]
type = "float64"
[dataset.columns.good]
type = "int64"
[dataset.metrics.energy]
kind = "integral"
input = "watts"
max_gap = "10 min"
[dataset.metrics.good_total]
kind = "sum"
input = "good"
[dataset.rollups.hourly]
bucket = "1 hour"
[dataset.rollups.hourly.aggregates]
readings = "count"
mean = { function = "avg", input = "watts" }
"""


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A small plant with one worker."""
    built = Plant(tmp_path, dsn, description=DATASET)
    yield built
    built.pool.close()


@pytest.fixture
def strict_plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A small plant in which what is more than five hours late is parked."""
    built = Plant(tmp_path, dsn, description=DATASET.replace("key = []", 'key = []\nhorizon = "5 h"'))
    yield built
    built.pool.close()
