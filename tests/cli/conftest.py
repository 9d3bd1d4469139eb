"""The command line as a process of its own, in a project folder of its own, on the test's database."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
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

    def run_one(*arguments: str, timeout: int = 60, **where: str) -> subprocess.CompletedProcess[str]:
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
            assert process.wait(timeout=60) == 0
        return written.decode()

    return run_one


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
