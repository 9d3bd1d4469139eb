"""Commands that read start the database of their project where it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray import embedded
from tests.forked import run_command

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.postgres


def test_a_stopped_embedded_database_is_started_for_whoever_reads(
    state_dir: Path, environment: dict[str, str]
) -> None:
    project = state_dir.parent
    project.mkdir()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_command(
            *arguments, project=project, environment=environment | {"DISARRAY_WORKER_RUNNER": "in-process"}
        )

    absent = run("files", "list")
    assert (absent.returncode, "Run: disarray db migrate" in absent.stderr) == (1, True)
    assert not state_dir.exists()
    run("init", ".")
    (project / "inbox" / "TOOL07").mkdir(parents=True, exist_ok=True)
    taken_in = run("up", "--once")
    assert taken_in.returncode == 0, taken_in.stderr
    commands = (
        ("value", "TOOL07", "in_spec_total"),
        ("files", "list"),
        ("restatements",),
    )
    for command in commands:
        embedded.stop(state_dir)
        read = run(*command)
        assert read.returncode == 0, read.stderr
        assert read.stderr == "The embedded database was stopped and runs again; disarray db stop ends it.\n"
        assert run(*command).stderr == ""
