"""The command line as a process of its own, in a project folder of its own, on the test's database."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def command(tmp_path: Path, dsn: str) -> Callable[..., list[str]]:
    """The command line of a call on the test's database."""

    def build(*arguments: str, on: str = dsn) -> list[str]:
        return [sys.executable, "-m", "disarray", "--dsn", on, "--state-dir", str(tmp_path), *arguments]

    return build


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of the test, less what would configure disarray."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DISARRAY_")}


@pytest.fixture
def run(
    command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command to its end, its output piped."""

    def run_one(*arguments: str, timeout: int = 240, **where: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments, **where),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    return run_one


@pytest.fixture
def run_on_terminal(
    command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path
) -> Callable[..., str]:
    """Runs a command on a terminal of 120 columns; what it wrote there."""

    def run_one(*arguments: str) -> str:
        leader, follower = os.openpty()
        with subprocess.Popen(
            command(*arguments),
            cwd=tmp_path,
            env=environment | {"COLUMNS": "120", "TERM": "xterm"},
            stdout=follower,
            stdin=subprocess.DEVNULL,
        ) as process:
            os.close(follower)
            written = b""
            # A terminal whose other side is closed answers with an error instead of an end.
            while piece := _read(leader):
                written += piece
            os.close(leader)
            assert process.wait(timeout=240) == 0
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
