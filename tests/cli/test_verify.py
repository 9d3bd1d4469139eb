"""`disarray verify` as a process of its own, and how it puts things."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import typer

from disarray.cli.commands.verify import describe, share_of
from disarray.control.hooks import register_hooks
from disarray.engine.verification.sources import Unproven
from disarray.engine.verification.verification_report import VerificationReport
from tests.plant import Plant

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

DESCRIPTION = """
[[dataset]]
name = "tools"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 h"
[dataset.columns.watts]
type = "float64"
[dataset.metrics.work]
kind = "sum"
input = "watts"
"""
HOOK = {
    "hook_name": "quality",
    "kind": "webhook",
    "causes": ["verification_failed"],
    "subject_patterns": ["*"],
    "dataset_patterns": ["*"],
    "larger_than": {},
    "definition": {},
    "definition_digest": "d",
}


@pytest.mark.postgres
@pytest.mark.spark
def test_a_number_that_was_changed_is_shown_with_its_bits_and_ends_in_failure(
    tmp_path: Path, dsn: str, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    plant = Plant(tmp_path, dsn, description=DESCRIPTION)
    with plant.pool.connection() as connection:
        register_hooks(connection, [HOOK])
    plant.ingest(plant.write("T1/a.csv", "time,watts\n2025-10-01T00:00:00Z,0.1\n2025-10-01T01:00:00Z,0.2\n"))
    plant.rows("update disarray.segment_summary set total_float = 0.3 where total_float = 0.2 returning 1")
    found = run("verify", "--json", timeout=1800)
    told = plant.rows("select subject_key, dataset, details -> 'finding_count' from disarray.side_effect")
    assert told == [("T1", "tools", 2)]
    plant.pool.close()
    assert found.returncode == 1, found.stderr
    assert [line for line in found.stderr.splitlines() if line.startswith("…")] == [
        "… starting Spark",
        "… tools: reading the files again, subjects 1 to 1 of 1",
        "… tools: comparing readings and rollups, files read: 1",
        "… tools: comparing metrics",
    ]
    document = json.loads(found.stdout)
    assert document["compared"] == {"files": 1, "readings": 2, "segments": 2, "bases": 2, "rollup_parts": 0}
    [total, history] = document["differences"]
    assert [total["what"], total["stored_hex"], total["recomputed_hex"]] == [
        *("metric total_float", (0.3).hex(), (0.2).hex())
    ]
    assert history["what"] == "metric over the whole history"


def test_the_verdict_comes_first_and_sources_that_are_gone_are_named_beside_it() -> None:
    report = VerificationReport(files=2, readings=1234)
    assert list(describe(report, is_identical=report.is_identical())) == [
        "verify: identical",
        "compared: 2 files, 1,234 readings, 0 segments, 0 bases, 0 rollup parts",
    ]
    report.unproven.append(Unproven("T1", "/inbox/a.csv", 0, "the source is gone"))
    first, *_ = describe(report, is_identical=report.is_identical())
    assert first == "verify: not proven"
    first, *_ = describe(report, is_identical=report.is_identical(allow_vanished=True))
    assert first == "verify: identical"


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("0.5", 0.5), (" 100 %", 1.0), ("2.5%", 0.025)])
def test_a_sample_is_a_percentage_or_a_share(text: str, share: float) -> None:
    assert share_of(text) == share


@pytest.mark.parametrize("text", ["0%", "101%", "a few", "1% or so", "nan", ""])
def test_a_sample_that_is_no_share_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"write 1% or 0\.01"):
        share_of(text)


def test_a_run_that_ran_out_of_time_says_how_many_subjects_are_left() -> None:
    report = VerificationReport(subjects=3, subjects_left=1200, verified_before=2)
    assert next(iter(describe(report, is_identical=True))) == "verify: identical, as far as it was recomputed"
    assert list(describe(report, is_identical=True))[2:] == [
        "2 subjects were verified before this run was broken off",
        "time ran out: 1,200 subjects are left, and come first in the next run with --budget",
    ]
