"""`disarray conflicts`: files that disagree under one key are listed wherever they are looked at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from disarray.control.files import Notification, Reason, enqueue_files

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


@pytest.fixture
def correction(plant: Plant) -> Path:
    """A file whose name sorts before the one that it corrects: it is not what counts."""
    path = plant.write("TOOL07/correction.csv", "time,watts,good\n2026-10-01T09:00:00+00:00,77.5,1\n")
    plant.ingest(path)
    return path


def test_nothing_is_listed_where_all_files_agree(run: Run, plant: Plant) -> None:
    assert run("conflicts").stdout == "No files disagree under one key.\n"


def test_both_values_are_listed_with_the_files_that_say_them(
    run: Run, plant: Plant, correction: Path
) -> None:
    _, line = run("conflicts", "TOOL07").stdout.splitlines()
    assert line.split()[:2] == ["TOOL07", "2026-10-01T09:00:00Z"]
    assert line.index("watts 9.0") < line.index("watts 77.5")
    assert line.index("new.csv") < line.index("correction.csv")
    [found] = json.loads(run("conflicts", "--json").stdout)
    assert (found["winner"], found["loser"]) == (str(plant.inbox / "TOOL07/new.csv"), str(correction))
    assert found["examples"][0]["differences"] == {"watts": [9.0, 77.5], "good": [0, 1]}
    assert run("conflicts", "TOOL08").stdout == "No files disagree under one key.\n"


def test_a_plan_names_the_readings_that_will_not_count(run: Run, plant: Plant) -> None:
    first = plant.write("TOOL08/new.csv", "time,watts,good\n2026-10-01T09:00:00+00:00,9.0,0\n")
    with plant.pool.connection() as connection:
        known = Notification(first.as_uri(), "TOOL08", Reason.QUIET, {"dataset": "tools"})
        enqueue_files(connection, [known])
    plant.drain()
    path = plant.write("TOOL08/correction.csv", "time,watts,good\n2026-10-01T09:00:00+00:00,77.5,1\n")
    planned = run("plan", str(path)).stdout
    assert "nothing new" in planned
    assert "1 reading disagrees with other files, 0 of them count" in planned
    [document] = json.loads(run("plan", str(path), "--json").stdout)["plans"]
    assert (document["conflicts_won"], document["conflicts_lost"]) == (0, 1)


def test_the_file_and_the_plant_say_that_they_have_conflicts(
    run: Run, plant: Plant, correction: Path
) -> None:
    assert (
        "1 reading of which another file says something else" in run("files", "show", str(correction)).stdout
    )
    assert "See: disarray conflicts" in run("status").stdout
