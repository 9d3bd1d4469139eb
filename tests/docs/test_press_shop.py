"""The press shop: its transcript is what the commands print, and both targets have what a pencil makes of the files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.transcripts import check_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import Databases

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "press-shop"
MADE = (".disarray", "warehouse", "warehouse.url", "published", "inbox", "later")


@pytest.fixture
def warehouse(databases: Databases) -> Iterator[str]:
    """The database of somebody else."""
    name = databases.create()
    yield databases.dsn(name)
    databases.discard(name)


@pytest.mark.postgres
def test_every_command_prints_what_the_page_shows_and_both_targets_are_right(
    tmp_path: Path, in_process: dict[str, str], warehouse: str
) -> None:
    folder = tmp_path / "press-shop"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(*MADE))
    start_warehouse = "disarray --state-dir warehouse db url > warehouse.url"
    check_page(
        EXAMPLE / "README.md",
        folder=folder,
        environment=in_process,
        # A second embedded server would answer with the database of this test, which the environment names.
        without=(start_warehouse,),
        before={start_warehouse: lambda: (folder / "warehouse.url").write_text(warehouse)},
    )

    expected = [
        ["PRESS-1", "08-31", "08:00", "12", "100.0", "100.0"],
        ["PRESS-1", "08-31", "09:00", "12", "107.5", "130.0"],
        ["PRESS-1", "09-01", "08:00", "12", "120.0", "120.0"],
        ["PRESS-2", "08-31", "08:00", "12", "80.0", "80.0"],
        ["PRESS-2", "08-31", "09:00", "12", "90.0", "90.0"],
    ]
    for where in "warehouse", "lakehouse":
        shown = subprocess.run(
            [sys.executable, "show.py", where], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        assert [line.split()[:-1] for line in shown.splitlines()[1:]] == expected


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_an_example_runs_from_an_empty_project_without_a_server(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns(*MADE))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DISARRAY_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["./run"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
