"""`disarray explain` and the listings: where a number comes from and what happened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import report

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


def explained(run: Run, *arguments: str) -> dict[str, object]:
    ended = run("explain", "TOOL07", *arguments, "--json")
    assert ended.returncode == 0, ended.stderr
    [one] = json.loads(ended.stdout)["explanations"]
    assert isinstance(one, dict)
    return one


@pytest.mark.parametrize("at", ["2026-10-01T10:30:00Z", "2026-10-01T10:59:59Z", "2026-10-01T23:00:00Z"])
def test_base_and_what_the_segment_adds_make_the_value(run: Run, plant: Plant, at: str) -> None:
    one = explained(run, "good_total", "--at", at)
    [value] = json.loads(run("value", "TOOL07", "good_total", "--at", at, "--json").stdout)["values"]
    assert one["value"] == value["value"]
    assert one["base"] + one["local"] == value["value"]  # type: ignore[operator]


def test_a_value_names_the_files_of_its_segment_and_those_before_it(
    run: Run, plant: Plant, late: Path
) -> None:
    one = explained(run, "good_total", "--at", "2026-10-01T09:30:00Z")
    segment = one["segment"]
    assert isinstance(segment, dict)
    assert [file["source_uri"] for file in segment["files"]] == [str(plant.inbox / "TOOL07" / "new.csv")]
    # Of the late file hour 8 counts and hour 2 is parked; it changed the base last.
    assert segment["before"]["files"] == 2
    assert [file["source_uri"] for file in segment["before"]["latest"]] == [
        str(late),
        str(plant.inbox / "TOOL07" / "0.csv"),
    ]
    assert segment["run"]["instance_name"] == "Worker01"


def test_only_restatements_that_reach_the_instant_are_told(run: Run, plant: Plant, late: Path) -> None:
    after = explained(run, "good_total", "--at", "2026-10-01T11:00:00Z")
    before = explained(run, "good_total", "--at", "2026-10-01T01:00:00Z")
    assert [noted["source_uris"] for noted in after["restatements"]] == [[str(late)]]  # type: ignore[attr-defined]
    assert before["restatements"] == []
    told = run("explain", "TOOL07", "good_total").stdout
    assert "because of late.csv" in told
    assert "file in the segment" in told
    assert "before the segment: 480 readings of 3 files; changed last:" in told
    assert "never restated" in run("explain", "TOOL07", "good_total", "--at", "2026-10-01T01:00Z").stdout


def test_an_instant_before_the_first_reading_has_nothing_to_explain(run: Run, plant: Plant) -> None:
    told = run("explain", "TOOL07", "good_total", "--at", "2026-09-01T00:00Z")
    assert told.returncode == 0
    assert "its first is at 2026-10-01T00:00:00Z" in told.stdout


def test_subjects_runs_and_events_are_listed(run: Run, plant: Plant, late: Path) -> None:
    [subject] = json.loads(run("subjects", "list", "--json").stdout)
    assert (subject["subject_key"], subject["files"], subject["stale_from"]) == ("TOOL07", 3, None)
    assert subject["datasets"]["tools"]["first"] == "2026-10-01T00:00:00Z"
    runs = json.loads(run("runs", "list", "--subject", "TOOL07", "--json").stdout)
    assert len(runs) == 3
    assert "1 parked" in run("runs", "list").stdout
    events = json.loads(run("events", "--file", str(late), "--json").stdout)
    assert [event["event_type"] for event in events] == ["completed", "enqueued"]
    assert events[0]["metadata"]["run_id"] == runs[0]["run_id"]
    assert len(run("events", "--kind", "completed", "--since", "1 h").stdout.splitlines()) == 4
    assert run("events", "--since", "2099-01-01").stdout == "Nothing of that happened.\n"


def test_a_file_is_shown_with_its_segments_and_status_with_the_day(
    run: Run, plant: Plant, late: Path
) -> None:
    plant.ingest(plant.write("TOOL07/copy.csv", report(8)))
    told = json.loads(run("files", "show", str(late), "--json").stdout)
    assert [(part["state"], part["readings"], part["segment_duplicates"]) for part in told["segments"]] == [
        ("parked", 120, None),
        ("active", 120, 120),
    ]
    assert "its readings" in run("files", "show", str(late)).stdout
    status = run("status").stdout
    assert "4 files read" in status
    assert "120 duplicate" in status
    assert "120 parked" in status
