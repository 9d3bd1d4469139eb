"""Whoever only reads needs neither Spark nor the broker nor a web server, and never loads the worker."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.plant import Plant
from tests.worker.conftest import DATASET
from tests.worker.test_retention import report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# As if the extras of worker, agent and web were not installed.
WITHOUT = """
import sys

REFUSED = {"pyspark", "py4j", "pika", "starlette", "uvicorn"}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Refuse())
"""
LOADED = """
loaded = {name.partition(".")[0] for name in sys.modules} & REFUSED
assert not loaded, loaded
for room in ("disarray.worker", "disarray.engine", "disarray.broker", "disarray.web"):
    assert room not in sys.modules, room
"""
RUN = """
from disarray.cli.main import make_app
try:
    make_app(sys.argv[1:])(sys.argv[1:], prog_name="disarray")
except SystemExit as end:
    assert not end.code, end.code
"""


def python(
    code: str, *arguments: str, folder: Path, dsn: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program where the refused packages cannot be imported."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DISARRAY_")}
    if dsn is not None:
        environment |= {"DISARRAY_DSN": dsn, "DISARRAY_STATE_DIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code + LOADED, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A project with readings of T1, one reading a minute in hours 0, 1 and 20."""
    built = Plant(tmp_path, dsn, description=DATASET)
    built.ingest(built.write("T1/long.csv", report(0, 1, 20)))
    yield built
    built.pool.close()


def test_the_refusal_can_fail(tmp_path: Path) -> None:
    ended = python("import starlette\n", folder=tmp_path)
    assert "No module named 'starlette'" in ended.stderr


def test_the_queries_are_imported_without_worker_spark_broker_and_web(tmp_path: Path) -> None:
    code = """
import importlib, pkgutil
import disarray.queries
for module in pkgutil.iter_modules(disarray.queries.__path__):
    importlib.import_module(f"disarray.queries.{module.name}")
"""
    ended = python(code, folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.postgres
@pytest.mark.parametrize(
    "words",
    [
        ("value", "T1", "energy"),
        ("value", "T1", "energy", "--at", "2026-10-01T00:30"),
        ("series", "T1", "energy", "--every", "1 h"),
        ("rollup", "T1", "hourly"),
        ("explain", "T1", "energy"),
        ("export", "readings", "--output", "-"),
        ("restatements",),
        ("files", "list"),
        ("subjects", "list"),
        ("runs", "list"),
        ("status",),
    ],
    ids=" ".join,
)
def test_a_command_that_reads_works_without_them(plant: Plant, dsn: str, words: tuple[str, ...]) -> None:
    ended = python(RUN, *words, folder=plant.inbox.parent, dsn=dsn)
    assert (ended.returncode, ended.stderr if words[0] != "export" else "") == (0, "")
    assert ended.stdout


@pytest.mark.postgres
def test_the_newest_value_needs_no_arrow(plant: Plant, dsn: str) -> None:
    """What summaries tell is told without a look into the lake, and without the packages that read it."""
    code = (
        RUN
        + """
assert not {"pyarrow", "numpy"} & set(sys.modules)
"""
    )
    ended = python(code, "value", "T1", "energy", folder=plant.inbox.parent, dsn=dsn)
    assert (ended.returncode, ended.stderr) == (0, "")
