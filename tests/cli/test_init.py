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
def environment(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Kernels run in the process: starting Spark is tested elsewhere. Sources deliver as in a project."""
    landing = tmp_path / ".disarray" / "landing"
    return environment | {"DISARRAY_WORKER_RUNNER": "in-process", "DISARRAY_LANDING_ROOT": str(landing)}


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


def test_a_table_and_events_come_in_beside_the_files(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    begun = run("init", "new", "--with", "table", "--with", "events")
    assert begun.returncode == 0, begun.stderr
    for path in (tmp_path / "new").iterdir():
        path.rename(tmp_path / path.name)
    described = tmp_path / "disarray.toml"
    described.write_text(described.read_text().replace(f"{tmp_path}/new/", f"{tmp_path}/"))
    assert run("ingest").returncode == 0
    recorded = run("inbox", "record", "press", "events.jsonl")
    assert "20 events: 20 new" in recorded.stdout, recorded.stderr
    taken_in = run("up", "--once")
    assert taken_in.returncode == 0, taken_in.stdout + taken_in.stderr
    assert run("value", "PRESS2", "pressed").stdout.startswith("PRESS2 pressed is 2,380 kN as of")
    energy = run("value", "TOOL07", "energy", "--dataset", "historian")
    assert energy.stdout.startswith("TOOL07 energy is "), energy.stderr
    assert "final" in energy.stdout
    assert "historian" in run("source", "list").stdout
