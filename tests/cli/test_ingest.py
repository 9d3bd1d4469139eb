"""`disarray ingest` and `disarray plan`: from a folder with files to numbers, in one command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from disarray.cli.support.pass_report import pass_document
from tests.cli.conftest import IN_PROCESS, report
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


def test_a_plan_tells_what_ingesting_then_does_and_changes_nothing(run: Run, plant: Plant) -> None:
    path = plant.write("TOOL07/late.csv", report(2, 8))
    before = plant.derived()
    told = run("plan", str(path)).stdout
    assert "TOOL07 (tools): late" in told
    assert "1 added, 1 parked" in told
    assert "segment 2026-10-01T08:00:00Z is scanned again: 120 readings in 1 fragment" in told
    assert (
        "good_total +120 from 2026-10-01T08:59:30Z to 2026-10-01T11:59:30Z (480 becomes 600); "
        "rising to it from 2026-10-01T08:00:30Z on"
    ) in told
    [planned] = json.loads(run("plan", str(path), "--json").stdout)["plans"]
    assert plant.derived() == before
    assert plant.rows("select count(*) from disarray.file_info") == [(2,)]
    [done] = plant.ingest(path)
    assert [len(each.units) for each in done.plans] == [len(planned["segments"])]
    assert {total["metric"] for total in planned["totals"]} == {"energy", "good_total"}


def test_a_plan_tells_which_rows_would_be_rejected(run: Run, plant: Plant) -> None:
    bad = "2026-10-01T12:00:00Z,many,1\n"
    path = plant.write("TOOL07/some.csv", report(12) + bad)
    told = run("plan", str(path)).stdout
    assert "would be rejected: 1 of 121 rows of file:" in told
    assert "some.csv; the first is line 122, bad_number in column 'watts'\n" in told
    [rejected] = json.loads(run("plan", str(path), "--json").stdout)["rejected"]
    assert (rejected["rejected"], rejected["first_line"], rejected["column"]) == (1, 122, "watts")
    nothing = run("plan", str(plant.write("TOOL07/none.csv", "time,watts,good\n" + bad))).stdout
    assert "would be rejected: 1 of 1 row of " in nothing
    assert "these versions are in" not in nothing


def test_a_preview_tells_the_newest_value_where_the_ledger_ends_before_it(run: Run, plant: Plant) -> None:
    path = plant.write("TOOL08/less.csv", report(8, 9, 10, 11, 12, rows=2))
    plant.ingest(path)
    path.write_text(report(8, rows=2))
    plant.ingest(path)
    [planned] = json.loads(run("quarantine", "preview", str(path), "--json").stdout)["plans"]
    # What is newer than an hour is not in the ledger, and older values come to the same number.
    last = [each for each in planned["spans"] if each["metric"] == "good_total"][-1]
    assert (last["old"], last["new"]) == (3, 1)
    assert "newest good_total -4 (5 becomes 1)" in run("quarantine", "preview", str(path)).stdout


def test_what_is_scanned_again_is_not_counted_as_untouched(run: Run, plant: Plant) -> None:
    path = plant.write("TOOL07/late.csv", report(6, 8, 10))
    [planned] = json.loads(run("plan", str(path), "--json").stdout)["plans"]
    [done] = plant.ingest(path)
    [committed] = done.committed
    # Hours 9 and 11; the hours 8 and 10 are scanned again.
    assert pass_document(plant.place, committed)["readings_to_the_right"] == 240
    assert planned["readings_to_the_right"] == 240


def test_a_file_that_no_dataset_takes_is_refused_by_name(run: Run, plant: Plant, tmp_path: Path) -> None:
    ended = run("plan", str(tmp_path / "elsewhere.csv"))
    assert ended.returncode == 1
    assert "no dataset of disarray.toml takes" in ended.stderr
    missing = run("plan", "inbox/TOOL07/missing.csv")
    assert missing.returncode == 1
    assert "would fail" in missing.stderr


@pytest.mark.spark
def test_files_become_numbers_on_an_embedded_database_that_nobody_set_up(
    state_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "inbox" / "TOOL07").mkdir(parents=True)
    (tmp_path / "disarray.toml").write_text(DATASET + '[spark]\nmaster = "local[2]"\n')
    for name, hours in (("a", (0, 1)), ("b", (3,)), ("late", (2,))):
        (tmp_path / "inbox" / "TOOL07" / f"{name}.csv").write_text(report(*hours))

    def disarray(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "disarray", "--state-dir", str(state_dir), *arguments],
            cwd=tmp_path,
            env={name: text for name, text in os.environ.items() if not name.startswith("DISARRAY_")},
            capture_output=True,
            text=True,
            check=False,
        )

    first = disarray("ingest", "inbox/TOOL07/a.csv", "inbox/TOOL07/b.csv")
    assert first.stdout.startswith("TOOL07 (tools): first data, 3 segments scanned (360 readings)"), (
        first.stderr
    )
    # One of them with Spark is enough; whoever goes on needs none.
    description = tmp_path / "disarray.toml"
    description.write_text(description.read_text() + IN_PROCESS)
    late = json.loads(disarray("ingest", "inbox/TOOL07/late.csv", "--json").stdout)
    [told] = late["passes"]
    assert (told["arrival"], told["segments_scanned"], told["readings_to_the_right"]) == ("late", 1, 120)
    assert "good_total is 480 as of" in disarray("value", "TOOL07", "good_total").stdout
    description.write_text(description.read_text().replace('kind = "sum"', 'kind = "max"'))
    rebuilt = disarray("ingest")
    assert rebuilt.stdout.startswith(
        "TOOL07 (tools): rebuilt under a new definition, 4 segments scanned (480 readings)"
    ), rebuilt.stderr
    assert "good_total is 2 as of" in disarray("value", "TOOL07", "good_total").stdout
