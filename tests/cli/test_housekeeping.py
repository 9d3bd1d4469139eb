"""`disarray housekeeping`: what would be done, what is done, and that it is told."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import IN_PROCESS
from tests.worker.test_compaction import grow

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


def test_housekeeping_tells_what_it_would_do_and_then_does_it(
    run: Run, plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    plant.description.write_text(plant.description.read_text() + IN_PROCESS)
    grow(plant, "TOOL08/grown.csv", steps=10)
    advance_clock(timedelta(hours=2))
    before = plant.derived()
    rehearsed = run("housekeeping", "--dry-run")
    assert "TOOL08: 1 segment of 10 fragments would be compacted" in rehearsed.stdout, rehearsed.stderr
    assert plant.rows("select count(*) from disarray.fragment where state = 'dropped'") == [(0,)]
    done = run("housekeeping", "--json")
    [kept] = json.loads(done.stdout)["subjects"]
    assert (kept["subject_key"], kept["fragments_before"], kept["fragments_after"]) == ("TOOL08", 10, 1)
    assert plant.derived() == before
    assert run("housekeeping").stdout == "There was nothing to do.\n"


def test_an_unknown_dataset_is_refused(run: Run, plant: Plant) -> None:
    ended = run("housekeeping", "--dataset", "tols")
    assert ended.returncode == 1
    assert "describes no dataset 'tols'" in ended.stderr
