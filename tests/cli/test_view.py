"""`disarray view`: what a person sees of a view from its first day to its last."""

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

VIEW = """
[[view]]
name = "files"
file = "files.sql"
key = ["subject_key"]
depends_on = ["tools"]
"""


def test_a_view_from_its_first_day_to_its_last(run: Run, plant: Plant, tmp_path: Path) -> None:
    assert "No view was applied." in run("view", "list").stdout
    assert "declares no [[view]]" in run("view", "apply").stdout
    path = tmp_path / "disarray.toml"
    path.write_text(path.read_text() + VIEW)
    query = tmp_path / "files.sql"
    query.write_text("select 'TOOL07' as subject_key, 1 as one\n")
    rehearsed = run("view", "apply", "--dry-run")
    assert "files: create" in rehearsed.stdout, rehearsed.stderr
    assert "+select 'TOOL07' as subject_key, 1 as one" in rehearsed.stdout
    assert plant.rows("select to_regclass('telemetry.files')") == [(None,)]
    assert "files: create" in run("view", "apply", "files", "--by", "ada").stdout
    assert plant.rows("select one from telemetry.files") == [(1,)]
    query.write_text("select 'TOOL07' as subject_key, 2 as one;\n")
    assert "-select 'TOOL07' as subject_key, 1 as one" in run("view", "apply", "--dry-run").stdout
    query.write_text("select 'TOOL07' as subject_key, 2 as\n")
    broken = run("view", "apply")
    assert broken.returncode == 1
    assert "syntax error" in broken.stderr
    assert "Nothing was changed" in broken.stderr
    [listed] = json.loads(run("view", "list", "--json").stdout)
    assert (listed["name"], listed["applied_by"], listed["state"]) == ("files", "ada", "fresh")
    plant.rows(
        "update disarray.materialized_view set last_error = 'too slow', last_error_at = now() returning 1"
    )
    assert "View telemetry.files could not be refreshed and is as it was: too slow" in run("status").stdout
    assert "too slow" in run("view", "list").stdout
    shown = run("view", "show", "files").stdout
    assert "select 'TOOL07' as subject_key, 1 as one" in shown
    assert "would" in run("view", "drop", "files", "--dry-run").stdout or plant.rows(
        "select one from telemetry.files"
    ) == [(1,)]
    assert "View files dropped." in run("view", "drop", "files").stdout
    assert plant.rows("select to_regclass('telemetry.files')") == [(None,)]
    missing = run("view", "drop", "files")
    assert missing.returncode == 1
    assert "no view 'files' was applied" in missing.stderr
