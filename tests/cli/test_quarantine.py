"""`disarray quarantine`: list, preview, release, reject."""

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

DECISION = ("--reason", "clock was right", "--by", "ada")


def test_what_waits_is_listed_with_its_span(run: Run, plant: Plant, late: Path) -> None:
    _, line = run("quarantine", "list").stdout.splitlines()
    assert line.split()[:6] == ["TOOL07", "beyond", "the", "horizon", "1", "120"]
    assert "2026-10-01T02:00:00Z" in line
    assert line.endswith(str(late))
    [entry] = json.loads(run("quarantine", "list", "--json").stdout)
    assert entry["readings"] == 120
    assert run("quarantine", "list", "--subject", "TOOL08").stdout == "Nothing is in quarantine.\n"


def test_a_preview_says_by_how_much_and_from_when_and_the_release_does_just_that(
    run: Run, plant: Plant, late: Path
) -> None:
    told = run("quarantine", "preview", "inbox/TOOL07/late.csv").stdout
    assert (
        "good_total +120 from 2026-10-01T02:59:30Z to 2026-10-01T11:59:30Z (600 becomes 720); "
        "rising to it from 2026-10-01T02:00:30Z on"
    ) in told
    assert "rollup hourly: 1 bucket would change: 2026-10-01T02:00:00Z" in told
    [plan] = json.loads(run("quarantine", "preview", str(late), "--json").stdout)["plans"]
    ended = run("quarantine", "release", str(late), *DECISION)
    assert "is released" in ended.stdout, ended.stderr
    plant.drain()
    for total in plan["totals"]:
        [now] = json.loads(run("value", "TOOL07", total["metric"], "--json").stdout)["values"]
        assert now["value"] == total["new"]
    assert run("quarantine", "list").stdout == "Nothing is in quarantine.\n"


def test_a_rejection_changes_no_number(run: Run, plant: Plant, late: Path) -> None:
    before = run("value", "TOOL07", "good_total").stdout
    assert "120 parked readings of" in run("quarantine", "reject", str(late), *DECISION).stdout
    assert run("value", "TOOL07", "good_total").stdout == before
    again = run("quarantine", "reject", str(late), *DECISION)
    assert again.returncode == 1
    assert "nothing of file" in again.stderr


def test_a_decision_needs_a_reason_and_a_dry_run_decides_nothing(run: Run, plant: Plant, late: Path) -> None:
    assert run("quarantine", "release", str(late), "--by", "ada").returncode == 2
    for decision in ("release", "reject"):
        ended = run("quarantine", decision, str(late), "--reason", "x", "--dry-run")
        assert (ended.returncode, "nothing was changed" in ended.stdout) == (0, True)
    assert len(json.loads(run("quarantine", "list", "--json").stdout)) == 1
    assert json.loads(run("queue", "list", "--json").stdout) == []
