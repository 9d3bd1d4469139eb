"""`disarray value` and `disarray series`: sentences for people, JSON for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from disarray.web.app import create_app
from disarray.web.route import Scope, Sources
from tests.plant import Plant
from tests.web.conftest import Client, add_token
from tests.worker.conftest import DATASET
from tests.worker.test_retention import report

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
    assert (told["subject_key"], told["metric"], told["stale_from"]) == ("TOOL07", "good_total", None)
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


@pytest.fixture
def forgetful_plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A project that keeps readings for a day, and has dropped those of hours 0 and 1 of subject T1."""
    built = Plant(tmp_path, dsn, description=DATASET.replace("key = []", 'key = []\nretain = "1 d"'))
    built.ingest(built.write("T1/long.csv", report(0, 1, 20)))
    built.ingest(built.write("T1/new.csv", report(30)))
    built.keep_house()
    yield built
    built.pool.close()


def test_the_command_line_and_rest_give_the_same_document(run: Run, forgetful_plant: Plant) -> None:
    plant = forgetful_plant
    app = create_app(Sources(plant.pool, plant.place.lake, plant.datasets))
    ada = Client(app, token=add_token(plant.pool, "ada", Scope.READ))
    metric: Any = {"subject_key": "T1", "metric": "good_total"}
    dropped = ada.get("values", **metric, at="2026-10-01T00:30:00Z")
    assert dropped["values"] == [
        {
            "channel": "",
            "at": "2026-10-01T00:30:00Z",
            "value": None,
            "reading_at": "2026-10-01T00:58:00Z",
            "final": False,
            "readings_dropped": True,
        }
    ]
    asked = [
        (("value", "--at", "2026-10-01T00:30:00Z"), dropped),
        (("value",), ada.get("values", **metric)),
        (("series", "--every", "5 h"), ada.get("series", **metric, every="5 h")),
        (
            ("series", "--every", "5 h", "--from", "2026-10-01T00:30Z", "--to", "2026-10-02"),
            ada.get("series", **metric, every="5 h", span=("2026-10-01T00:30:00Z", "2026-10-02T00:00:00Z")),
        ),
    ]
    for (command, *options), document in asked:
        printed = run(command, "T1", "good_total", *options, "--json").stdout
        assert json.loads(printed) == document
    rollup = ada.get("rollups", subject_key="T1", rollup="hourly")
    assert json.loads(run("rollup", "T1", "hourly", "--json").stdout) == rollup
    assert len(rollup["buckets"]) == 4
    assert "is not known any more" in run("value", "T1", "good_total", "--at", "2026-10-01T00:30").stdout


def test_a_series_begins_inside_the_first_segment_before_its_first_reading(run: Run, plant: Plant) -> None:
    rows = "".join(f"2026-10-01T{time}:00Z,1.0,{good}\n" for time, good in (("01:30", 4), ("02:30", 3)))
    plant.ingest(plant.write("TOOL08/0.csv", "time,watts,good\n" + rows))
    options = ("--from", "2026-10-01T01:10", "--to", "2026-10-01T03:00", "--every", "50 min")
    told = json.loads(run("series", "TOOL08", "good_total", *options, "--json").stdout)
    assert [(each["at"][11:16], each["value"]) for each in told["values"]] == [("02:00", 4), ("02:50", 7)]


def test_a_damaged_file_of_the_lake_is_told_and_ends_with_1(run: Run, plant: Plant) -> None:
    source = plant.inbox / "TOOL07" / "0.csv"
    [(path,)] = plant.rows(f"select path from disarray.fragment where source_uri = '{source}'")
    damaged = plant.place.lake.root / str(path)
    content = bytearray(damaged.read_bytes())
    content[200] ^= 4
    damaged.write_bytes(content)
    ended = run("value", "TOOL07", "good_total", "--at", "2026-10-01T00:30")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"disarray files reingest {source}" in " ".join(ended.stderr.split())
    assert run("value", "TOOL07", "good_total").returncode == 0


def test_instants_are_shown_and_read_in_the_zone_of_the_viewer(
    run: Run, plant: Plant, tmp_path: Path
) -> None:
    berlin = ("--zone", "Europe/Berlin")
    shown = run("value", "TOOL07", "good_total", *berlin)
    assert shown.stdout == (
        "TOOL07 good_total is 480 as of its reading at 2026-10-01T13:59:30+02:00, final.\n"
    ), shown.stderr
    there, here = (
        run("value", "TOOL07", "good_total", "--at", at, "--json", *options).stdout
        for at, options in (("2026-10-01T12:00", berlin), ("2026-10-01T10:00Z", ()))
    )
    assert there == here
    series = run("series", "TOOL07", "good_total", "--every", "6 h", *berlin).stdout.splitlines()
    assert series[1].startswith("2026-10-01T02:00:00+02:00 ")
    rollup = run("rollup", "TOOL07", "hourly", *berlin).stdout.splitlines()
    assert rollup[1].startswith("2026-10-01T02:00:00+02:00  2026-10-01T03:00:00+02:00 ")
    wrong = run("value", "TOOL07", "good_total", "--zone", "Mars/Olympus")
    assert (wrong.returncode, "is not a time zone" in wrong.stderr) == (1, True)
    forward = run("value", "TOOL07", "good_total", "--at", "2026-03-29T02:30", *berlin)
    assert (forward.returncode, "no clock of Europe/Berlin shows" in forward.stderr) == (2, True)
    settings = tmp_path / "disarray.toml"
    settings.write_text('[output]\nzone = "Asia/Kolkata"\n' + settings.read_text())
    assert "2026-10-01T17:29:30+05:30, final." in run("value", "TOOL07", "good_total").stdout
    assert "T11:59:30Z, final." in run("value", "TOOL07", "good_total", "--zone", "UTC").stdout
    # Whatever command it is, the same text is the same instant.
    assert "+05:30" in run("runs", "list").stdout
    assert "+05:30" in run("events").stdout
    exported = run("export", "readings", "--output", "-", "--from", "2026-10-01T17:29:30").stdout.splitlines()
    assert len(exported) == 2
