"""Kernels run in this process or by Spark, a lake, and a dataset of plain CSV files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.engine.runner import InProcessRunner, SparkRunner
from disarray.formats.loader import load_datasets
from disarray.store.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset

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
[dataset.columns.value]
type = "float64"
"""


@pytest.fixture
def spark_runner(spark_session: SparkSession) -> Runner:
    """Kernels as Spark jobs."""
    return SparkRunner(spark_session)


@pytest.fixture(params=["in_process", pytest.param("spark", marks=pytest.mark.spark)])
def runner(request: pytest.FixtureRequest) -> Runner:
    """Both ways to run a kernel over tasks: what holds for one holds for the other."""
    if request.param == "spark":
        found: Runner = request.getfixturevalue("spark_runner")
        return found
    return InProcessRunner()


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """The folder that files arrive in."""
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake."""
    return Lake(tmp_path / "lake")


@pytest.fixture
def dataset(tmp_path: Path, inbox: Path) -> Dataset:
    """CSV files with a time and a value, one folder a subject, segments of an hour."""
    config = tmp_path / "disarray.toml"
    config.write_text(DATASET)
    [loaded] = load_datasets(config)
    return loaded
