"""The command line as a process of its own, in a project folder of its own, on the test's database."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.forked import ForkedCommand, plain_environment, run_command
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def command(tmp_path: Path, dsn: str) -> Callable[..., list[str]]:
    """What starts a command on the test's database from nothing, for tests of its streams and signals."""

    def build(*arguments: str, on: str = dsn) -> list[str]:
        return [sys.executable, "-m", "disarray", "--dsn", on, "--state-dir", str(tmp_path), *arguments]

    return build


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of the test, less what would configure disarray."""
    return plain_environment()


@pytest.fixture
def run(
    environment: dict[str, str], tmp_path: Path, dsn: str
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command to its end on the test's database, or on another."""

    def run_one(*arguments: str, on: str = dsn, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        where = ("--dsn", on, "--state-dir", str(tmp_path))
        return run_command(*where, *arguments, project=tmp_path, environment=environment, timeout=timeout)

    return run_one


@pytest.fixture
def run_on_terminal(environment: dict[str, str], tmp_path: Path, dsn: str) -> Callable[..., str]:
    """Runs a command on a terminal of 120 columns; what it wrote there."""

    def run_one(*arguments: str) -> str:
        leader, follower = os.openpty()
        process = ForkedCommand(
            *("--dsn", dsn, "--state-dir", str(tmp_path), *arguments),
            project=tmp_path,
            environment=environment | {"COLUMNS": "120", "TERM": "xterm"},
            stdout=follower,
            stderr=2,
        )
        os.close(follower)
        try:
            written = b""
            # A terminal whose other side is closed answers with an error instead of an end.
            while piece := _read(leader):
                written += piece
            assert process.wait(timeout=240) == 0
        finally:
            os.close(leader)
            process.kill()
        return written.decode()

    return run_one


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


# Of commands whose subject is not Spark, whose JVM takes seconds to start.
IN_PROCESS = '\n[worker]\nrunner = "in-process"\n'
START = datetime(2026, 10, 1, tzinfo=UTC)


def report(*hours: float, rows: int = 120) -> str:
    """A file of readings every 30 s."""
    lines = [
        f"{(START + timedelta(hours=hour, seconds=30 * row)).isoformat()},{hour + row / 8},{row % 3}\n"
        for hour in hours
        for row in range(rows)
    ]
    return "time,watts,good\n" + "".join(lines)


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A project whose subject TOOL07 has readings of hours 0 and 9 to 11; what is over six hours late is parked."""
    text = DATASET.replace("key = []", 'key = []\nhorizon = "6 h"')
    text = text.replace('max_gap = "10 min"', 'max_gap = "10 min"\nunit = "Ws"')
    built = Plant(tmp_path, dsn, description=text)
    built.ingest(built.write("TOOL07/0.csv", report(0)))
    built.ingest(built.write("TOOL07/new.csv", report(9, 10, 11)))
    yield built
    built.pool.close()


@pytest.fixture
def late(plant: Plant) -> Path:
    """A file of which hour 2 is parked and hour 8 is in."""
    path = plant.write("TOOL07/late.csv", report(2, 8))
    plant.ingest(path)
    return path
