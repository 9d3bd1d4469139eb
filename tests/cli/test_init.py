"""`disarray init`: a folder in which `disarray up --once` works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.postgres


@pytest.fixture
def environment(environment: dict[str, str]) -> dict[str, str]:
    """Kernels run in the process: starting Spark is tested elsewhere."""
    return environment | {"DISARRAY_WORKER_RUNNER": "in-process"}


def test_a_new_project_takes_its_sample_in_and_names_the_next_step(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    begun = run("init", "new")
    assert begun.returncode == 0, begun.stderr
    assert "disarray up --once" in begun.stdout
    (tmp_path / "disarray.toml").write_text((tmp_path / "new" / "disarray.toml").read_text())
    (tmp_path / "new" / "inbox").rename(tmp_path / "inbox")
    taken_in = run("up", "--once")
    assert taken_in.returncode == 0, taken_in.stderr
    assert "TOOL07 (tools): first data" in taken_in.stdout
    assert "files       41 there, 41 new or changed, 41 taken in" in taken_in.stdout
    assert "Next: disarray value TOOL07 in_spec_total" in taken_in.stdout


def test_the_report_that_is_held_back_lands_late(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    begun = run("init", "new")
    move = next(line for line in begun.stdout.splitlines() if line.startswith("  mv ")).split()
    (tmp_path / "disarray.toml").write_text((tmp_path / "new" / "disarray.toml").read_text())
    (tmp_path / "new" / "inbox").rename(tmp_path / "inbox")
    run("up", "--once")
    (tmp_path / "new" / move[1]).rename(tmp_path / move[2] / "late.csv")
    assert "TOOL07 (tools): late, 1 segment scanned" in run("up", "--once").stdout


def test_what_is_there_is_never_overwritten(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "disarray.toml").write_text("# mine\n")
    refused = run("init", "mine")
    assert refused.returncode == 1
    assert "is there already. Nothing was written" in refused.stderr
    assert (tmp_path / "mine" / "disarray.toml").read_text() == "# mine\n"
    assert not (tmp_path / "mine" / "inbox").exists()
