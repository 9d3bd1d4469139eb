"""`disarray audit` as a process of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from disarray.store.audit.rules import RULES

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


def test_a_sound_system_is_said_to_be_sound_rule_by_rule(plant: Plant, run: Run) -> None:
    found = run("audit", "--patience", "0 s")
    assert found.returncode == 0, found.stderr
    first, headings, *rows, note = found.stdout.splitlines()
    assert first == "audit: everything holds"
    assert headings.split() == ["guarantee", "rule", "verdict"]
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)
    assert {row[:2] for row in rows} == {f"G{number}" for number in range(1, 10)}
    skipped = sum(row.rstrip().endswith("skipped") for row in rows)
    assert skipped == sum(rule.is_deep for rule in RULES) > 5
    assert note == f"{skipped} rules skipped: reads all that is stored: ask for it with --deep"
    assert sum(row.rstrip().endswith("holds") for row in rows) == len(rows) - skipped


def test_what_is_broken_is_shown_with_what_it_means_and_what_to_run(plant: Plant, run: Run) -> None:
    plant.rows(
        "update disarray.segment_summary set base_int = base_int - 113 "
        "where segment_us = (extract(epoch from timestamptz '2026-10-01T09:00Z') * 1000000)::bigint "
        "and metric = 'good_total' returning 1"
    )
    found = run("audit", "--deep")
    assert found.returncode == 1
    assert found.stdout.startswith("audit: 1 rule BROKEN\n")
    explained = found.stdout.rpartition("bases follow from summaries: ")[2]
    meaning, first, *_, next_step = explained.splitlines()
    assert meaning.startswith("Running values of these segments do not follow from the readings before them.")
    assert first == (
        "  tools/TOOL07 2026-10-01T09:00:00Z: good_total: stored before and base are (120, 7), "
        "the summaries give (120, 120)"
    )
    assert next_step.startswith("  Next: disarray verify tells which numbers are affected.")

    document = json.loads(run("audit", "--json").stdout)
    assert document["holds"] is False
    [broken] = [rule for rule in document["rules"] if rule["outcome"] == "broken"]
    assert broken["rule"] == "bases_follow_from_summaries"
    assert broken["guarantee"] == "G3 confluence"
    assert broken["findings"]
