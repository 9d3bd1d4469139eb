"""`disarray store copy`: readings into a table and back, with the configuration kept honest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


@pytest.fixture
def description(plant: Plant, tmp_path: Path) -> Path:
    """The project's file, with a worker that needs no Spark."""
    path = tmp_path / "disarray.toml"
    path.write_text(path.read_text() + '[worker]\nrunner = "in-process"\n')
    return path


def test_a_dry_run_tells_and_the_copy_moves_and_says_what_to_write(
    run: Run, plant: Plant, description: Path
) -> None:
    told = run("store", "copy", "tools", "--to", "timescale", "--dry-run")
    assert "1 subject of tools would be moved to timescale. Nothing was changed." in told.stdout, told.stderr
    assert plant.rows("select to_regclass('telemetry.tools')") == [(None,)]
    before = run("value", "TOOL07", "energy", "--at", "2026-10-01T10:30").stdout
    moved = run("store", "copy", "tools", "--to", "timescale")
    assert moved.stdout == (
        "The store of tools is timescale; 0 subjects still to be moved.\n"
        'Now write store = "timescale" in disarray.toml: workers do not start before.\n'
    ), moved.stderr
    assert plant.rows("select count(*) from telemetry.tools_running where is_final") == [(480,)]
    assert run("value", "TOOL07", "energy", "--at", "2026-10-01T10:30").stdout == before
    refused = run("ingest")
    assert refused.returncode == 1
    assert (
        "Run 'disarray store copy tools --to lake' to move them, or write store = \"timescale\""
        in refused.stderr
    )
    description.write_text(description.read_text().replace("[[dataset]]", '[[dataset]]\nstore = "timescale"'))
    assert run("ingest").stdout == "Nothing was queued.\n"
    back = json.loads(run("store", "copy", "tools", "--to", "lake", "--json").stdout)
    assert back == {"dataset": "tools", "store": "lake", "waiting": [], "failures": []}
    assert plant.rows("select count(*) from telemetry.tools") == [(0,)]


def test_a_dataset_that_nobody_described_is_refused(run: Run, plant: Plant, description: Path) -> None:
    ended = run("store", "copy", "tolls", "--to", "lake")
    assert ended.returncode == 1
    assert "disarray.toml describes no dataset 'tolls'" in ended.stderr
