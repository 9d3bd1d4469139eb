"""`disarray rebuild`, and what the other commands say while one is pending."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres

PEAK = '[dataset.metrics.peak]\nkind = "max"\ninput = "watts"\n'


def describe_anew(plant: Plant, text: str) -> None:
    plant.description.write_text(text)


def test_a_dry_run_tells_what_differs_and_what_it_costs_and_changes_nothing(run: Run, plant: Plant) -> None:
    text = plant.description.read_text()
    describe_anew(plant, text.replace('bucket = "1 hour"', 'bucket = "15 min"') + PEAK)
    told = run("rebuild", "--dry-run")
    assert told.stdout.splitlines() == [
        "tools: the definition of disarray.toml is not in force yet; 1 subject to rebuild",
        "  metric peak is new",
        "  rollup hourly changed",
        "  TOOL07: 4 segments to scan again, no file is read (480 readings)",
    ]
    describe_anew(plant, text.replace('segment = "1 h"', 'segment = "1 d"'))
    [dataset] = json.loads(run("rebuild", "--dry-run", "--json").stdout)["datasets"]
    assert dataset["changes"] == ["parsing: segment changed"]
    assert dataset["subjects"] == [
        {
            "subject": "TOOL07",
            "reads_files": True,
            "files": 2,
            "segments": 4,
            "readings": 480,
            "queued": False,
        }
    ]
    assert plant.rows("select count(*) from disarray.ingest_queue") == [(0,)]
    assert plant.rows("select count(*) from disarray.dataset_version") == [(1,)]


def test_old_numbers_are_served_and_said_to_be_old_until_the_rebuild_is_done(run: Run, plant: Plant) -> None:
    text = plant.description.read_text()
    describe_anew(plant, text.replace('kind = "sum"', 'kind = "max"') + PEAK)
    assert "that definition is not in force. Run: disarray ingest" in run("value", "TOOL07", "peak").stderr
    assert "1 rebuild queued; a worker does them next" in run("rebuild").stdout
    told = run("value", "TOOL07", "good_total").stdout
    assert told.startswith("TOOL07 good_total is 480 as of")
    assert "a rebuild is pending (0 of 1 subjects rebuilt)" in told
    assert json.loads(run("value", "TOOL07", "good_total", "--json").stdout)["rebuild_pending"] is True
    assert "not built yet for TOOL07: 0 of 1 subjects rebuilt" in run("value", "TOOL07", "peak").stderr
    assert json.loads(run("status", "--json").stdout)["rebuilds"] == {"pending": 1, "queued": 1}
    exported = run("export", "readings", "--output", "all.csv").stdout
    assert "480 rows of 1 subject in all.csv." in exported
    assert "a rebuild is pending" in exported
    plant.redefine(plant.description.read_text())
    plant.drain()
    assert run("value", "TOOL07", "good_total").stdout.startswith("TOOL07 good_total is 2 as of")
    assert run("rebuild").stdout == "tools: all numbers are of the definition in force.\n"
    assert "because of a new definition of the dataset" in run("restatements").stdout


def test_a_definition_that_was_replaced_comes_back_only_by_its_name(run: Run, plant: Plant) -> None:
    text = plant.description.read_text()
    plant.redefine(text + PEAK)
    describe_anew(plant, text)
    refused = run("rebuild")
    assert refused.returncode == 1
    assert "run: disarray rebuild --dataset tools" in refused.stderr
    back = run("rebuild", "--dataset", "tools").stdout
    assert (
        "the definition of disarray.toml is not in force yet; 0 subjects to rebuild\n  metric peak is gone"
        in back
    )
    assert run("rebuild").stdout == "tools: all numbers are of the definition in force.\n"
