"""`disarray rollup` and `disarray restatements`."""

from __future__ import annotations

import json
import re
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


def test_buckets_are_listed_with_their_aggregates(run: Run, plant: Plant) -> None:
    options = ("--from", "2026-10-01T09:30", "--to", "2026-10-01T10:30")
    heading, *lines = run("rollup", "TOOL07", "hourly", *options).stdout.splitlines()
    assert heading.split()[-2:] == ["readings", "mean"]
    assert [line.split()[2:] for line in lines] == [["120", "16.4375", "final"], ["120", "17.4375", "final"]]
    told = json.loads(run("rollup", "TOOL07", "hourly", *options, "--json").stdout)
    assert told["buckets"][0]["values"] == {"readings": 120, "mean": 16.4375}
    assert "no rollup 'hourli'; did you mean 'hourly'?" in run("rollup", "TOOL07", "hourli", *options).stderr


def test_restatements_say_what_changed_by_how_much_from_when_and_why(run: Run, plant: Plant) -> None:
    assert run("restatements").stdout == "Nothing was restated.\n"
    plant.ingest(plant.write("TOOL07/late.csv", report(6)))
    told = run("restatements", "TOOL07").stdout
    assert (
        "TOOL07 good_total +120 from 2026-10-01T06:59:30Z to 2026-10-01T11:59:30Z (480 became 600); "
        "rising to it from 2026-10-01T06:00:30Z on, because of late.csv"
    ) in told
    [noted, ramp] = [
        each for each in json.loads(run("restatements", "--json").stdout) if each["metric"] == "good_total"
    ]
    assert (noted["old"], noted["new"], noted["delta"]) == (480, 600, 120)
    assert (ramp["least"], ramp["greatest"], ramp["delta"]) == (1, 118, None)
    assert run("restatements", "TOOL08").stdout == "Nothing was restated.\n"


def test_restatements_are_told_in_the_zone_of_the_viewer(run: Run, plant: Plant, late: Path) -> None:
    here = run("restatements").stdout
    there = run("restatements", "--zone", "Asia/Kolkata").stdout
    assert " to 2026-10-01T08:59Z (" in here
    assert " to 2026-10-01T14:29+05:30 (" in there
    assert "Z" not in there
    assert re.search(r"written down \d{4}-\d\d-\d\dT\d\d:\d\d\+05:30\.", there)
    told = run("explain", "TOOL07", "good_total", "--zone", "Asia/Kolkata").stdout
    assert re.search(r"restated \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+05:30: ", told)
