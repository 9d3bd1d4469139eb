"""`disarray value` and `disarray series`: sentences for people, JSON for programs."""

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


def test_the_newest_value_is_a_sentence_with_unit_time_and_whether_it_is_final(
    run: Run, plant: Plant
) -> None:
    ended = run("value", "TOOL07", "good_total")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "TOOL07 good_total is 480 as of its reading at 2026-10-01T11:59:30Z, final.\n"
    assert " Ws as of " in run("value", "TOOL07", "energy").stdout


def test_a_value_at_an_instant_is_that_of_the_last_reading_before_it(run: Run, plant: Plant) -> None:
    told = json.loads(run("value", "TOOL07", "good_total", "--at", "2026-10-01T09:01:15", "--json").stdout)
    assert told["values"] == [
        {
            "channel": "",
            "at": "2026-10-01T09:01:15Z",
            "value": 120 + 0 + 1 + 2,
            "reading_at": "2026-10-01T09:01:00Z",
            "final": True,
            "readings_dropped": False,
        }
    ]
    assert (told["subject"], told["metric"], told["stale_from"]) == ("TOOL07", "good_total", None)
    assert "has no reading at or before" in run("value", "TOOL07", "energy", "--at", "2026-09-01").stdout


def test_a_stale_value_says_from_when(run: Run, plant: Plant) -> None:
    plant.rows(
        """
        insert into disarray.dirty_range (subject_key, range_start, range_end, reason, created_at)
        values ('TOOL07', '2026-10-01T10:00Z', 'infinity', 'test', now()) returning 1
        """
    )
    told = run("value", "TOOL07", "good_total").stdout
    assert "stale.\nNumbers from 2026-10-01T10:00:00Z on are stale" in told


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        (("TOOL7", "good_total"), "subject 'TOOL7' has no readings; did you mean 'TOOL07'?"),
        (("TOOL07", "goodtotal"), "'TOOL07' has no metric 'goodtotal'; did you mean 'good_total'?"),
        (("TOOL07", "energy", "--dataset", "tolls"), "no dataset 'tolls'; did you mean 'tools'?"),
        (("TOOL07", "energy", "--channel", "x"), "'TOOL07' has no channel 'x'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(
    run: Run, plant: Plant, wrong: tuple[str, ...], answer: str
) -> None:
    ended = run("value", *wrong)
    assert ended.returncode == 1
    assert answer in ended.stderr


def test_a_series_has_a_line_for_each_instant(run: Run, plant: Plant) -> None:
    options = ("--from", "2026-10-01", "--to", "2026-10-01T12:00", "--every", "6 h")
    heading, *lines = run("series", "TOOL07", "good_total", *options).stdout.splitlines()
    assert heading.split() == ["at", "channel", "good_total", "last", "reading"]
    assert [line.split()[1] for line in lines] == ["0", "120", "480"]
    told = json.loads(run("series", "TOOL07", "energy", *options, "--json").stdout)
    assert [each["at"][11:13] for each in told["values"]] == ["00", "06", "12"]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--from", "x", "--to", "2026-10-01", "--every", "1 h"),
        ("--from", "2026-10-01", "--to", "2026-10-02", "--every", "soon"),
    ],
)
def test_what_is_no_time_is_a_wrong_call(run: Run, wrong: tuple[str, ...]) -> None:
    assert run("series", "TOOL07", "energy", *wrong).returncode == 2


def test_a_project_without_datasets_is_told_how_to_get_one(run: Run) -> None:
    ended = run("value", "TOOL07", "energy")
    assert ended.returncode == 1
    assert "formats try" in ended.stderr
