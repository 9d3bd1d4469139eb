"""Numbers over REST are the numbers of the store, with every bit."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from disarray.queries.metric_values import value_at
from disarray.web.api import rollups
from tests.cli.conftest import report

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


def test_a_value_has_every_bit_of_the_stored_one(plant: Plant, ada: Client) -> None:
    dataset = plant.datasets["tools"]
    [metric] = [metric for metric in dataset.metrics if metric.name == "energy"]
    with plant.pool.connection() as connection:
        [stored] = value_at(
            connection, plant.place.lake, dataset=dataset, subject_key="TOOL07", metric=metric
        ).values
    answer = ada.get("values", subject_key="TOOL07", metric="energy")
    [value] = answer["values"]
    assert value["value"] == stored.number
    assert value["final"] is True
    assert (answer["stale_from"], value["at"]) == (None, "2026-10-01T11:59:30Z")


def test_values_inside_a_segment_and_before_the_first_reading(plant: Plant, ada: Client) -> None:
    inside = ada.get("values", subject_key="TOOL07", metric="good_total", at="2026-10-01T02:30:10+02:00")
    [value] = inside["values"]
    assert (value["at"], value["reading_at"]) == ("2026-10-01T00:30:10Z", "2026-10-01T00:30:00Z")
    before = ada.get("values", subject_key="TOOL07", metric="good_total", at="2026-09-30T00:00:00Z")
    assert before["values"] == []


def test_a_series_has_a_value_for_each_instant(plant: Plant, ada: Client) -> None:
    def ask(every: str, expect: int = 200) -> Any:
        span = ("2026-10-01T00:00:00Z", "2026-10-01T12:00:00Z")
        return ada.get(
            "series", expect=expect, span=span, subject_key="TOOL07", metric="good_total", every=every
        )

    values = ask("1 h")["values"]
    assert [value["at"][11:13] for value in values] == [f"{hour:02}" for hour in range(13)]
    assert "let 'from' be before" in ask("0 s", expect=422)["detail"]
    ask("1 us", expect=422)
    ask("an hour", expect=400)


def test_unknown_names_are_answered_with_the_nearest(plant: Plant, ada: Client) -> None:
    assert (
        "did you mean 'TOOL07'?"
        in ada.get("values", subject_key="TOOL7", metric="energy", expect=404)["detail"]
    )
    assert (
        "did you mean 'energy'?"
        in ada.get("values", subject_key="TOOL07", metric="enrgy", expect=404)["detail"]
    )


def test_rollups_subjects_and_restatements_are_those_of_the_store(
    plant: Plant, ada: Client, late: str
) -> None:
    answer = ada.get(
        "rollups",
        subject_key="TOOL07",
        rollup="hourly",
        span=("2026-10-01T08:00:00Z", "2026-10-01T10:00:00Z"),
    )
    assert [(bucket["start"], bucket["values"]["readings"]) for bucket in answer["buckets"]] == [
        ("2026-10-01T08:00:00Z", 120),
        ("2026-10-01T09:00:00Z", 120),
    ]
    [subject] = ada.get("subjects")["subjects"]
    assert subject == {
        "subject_key": "TOOL07",
        "dataset": "tools",
        "first": "2026-10-01T00:00:00Z",
        "last": "2026-10-01T11:59:30Z",
    }
    restated = ada.get("restatements", subject_key="TOOL07")["restatements"]
    assert {each["metric"] for each in restated} == {"energy", "good_total"}
    assert restated[0]["source_uris"] == [late]


@pytest.mark.parametrize("place", ["channel", "dataset", "subject_key", "metric"])
def test_no_parameter_takes_nul(plant: Plant, ada: Client, place: str) -> None:
    asked: Any = {"subject_key": "TOOL07", "metric": "energy"} | {place: "a\x00b"}
    assert ada.get("values", **asked, expect=400)["detail"].startswith(f"{place}: expected a text like")


@pytest.mark.parametrize("instant", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_an_instant_that_is_none_in_utc_is_refused(plant: Plant, ada: Client, instant: str) -> None:
    told = ada.get("values", subject_key="TOOL07", metric="energy", at=instant, expect=422)
    assert "not within the years 1 to 9999 in UTC" in told["detail"]
    span = ("2026-10-01T00:00:00Z", instant)
    ada.get("series", subject_key="TOOL07", metric="energy", span=span, every="365 d", expect=422)
    ada.get("rollups", subject_key="TOOL07", rollup="hourly", span=span, expect=422)


def test_a_date_is_its_midnight_in_utc_as_on_the_command_line(plant: Plant, ada: Client) -> None:
    metric: Any = {"subject_key": "TOOL07", "metric": "good_total"}
    by_date = ada.get("values", **metric, at="2026-10-02")
    assert by_date == ada.get("values", **metric, at="2026-10-02T00:00:00Z")
    for no_date in ("2026-10-32", "2026-10", "20261002", "2026-10-02T08:00", "2026-W40-1"):
        assert "or 2026-10-02" in ada.get("values", **metric, at=no_date, expect=400)["detail"]


def test_a_series_without_ends_is_of_all_readings_and_too_long_a_one_is_refused(
    plant: Plant, ada: Client
) -> None:
    metric: Any = {"subject_key": "TOOL07", "metric": "good_total"}
    values = ada.get("series", **metric, every="5 h")["values"]
    assert [value["at"][11:13] for value in values] == ["00", "05", "10", "15"]
    assert values[-1]["value"] == ada.get("values", **metric)["values"][0]["value"]
    refused = ada.get("series", **metric, every="1 ms", expect=422)["detail"]
    assert "1 to 100,000 are answered at once. Nothing was read" in refused


def test_rollups_and_subjects_beyond_the_limit_are_refused_or_cut_and_said_so(
    plant: Plant, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ada.get("subjects", limit="1")
    assert (len(whole["subjects"]), whole["next"]) == (1, None)
    plant.ingest(plant.write("TOOL08/a.csv", report(0)))
    cut = ada.get("subjects", limit="1")
    assert ([each["subject_key"] for each in cut["subjects"]], cut["next"] is not None) == (["TOOL07"], True)
    monkeypatch.setattr(rollups, "MOST_VALUES", 3)
    refused = ada.get("rollups", subject_key="TOOL07", rollup="hourly", expect=422)
    assert "more than 3 parts of buckets" in refused["detail"]
    one = ("2026-10-01T09:00:00Z", "2026-10-01T10:00:00Z")
    assert len(ada.get("rollups", subject_key="TOOL07", rollup="hourly", span=one)["buckets"]) == 1


def test_the_values_of_many_subjects_are_those_of_each(plant: Plant, ada: Client) -> None:
    for name in ("TOOL08", "TOOL09"):
        plant.ingest(plant.write(f"{name}/0.csv", report(3)))
    each = [ada.get("values", subject_key=f"TOOL0{number}", metric="energy") for number in (7, 8, 9)]
    assert ada.get("values/subjects", metric="energy") == {"subjects": each, "next": None}
    at = "2026-10-01T03:10:00Z"
    each_then = [
        ada.get("values", subject_key=f"TOOL0{number}", metric="energy", at=at) for number in (7, 8, 9)
    ]
    first = ada.get("values/subjects", metric="energy", at=at, limit="2")
    assert first["subjects"] == each_then[:2]
    rest = ada.get("values/subjects", metric="energy", at=at, limit="2", after=first["next"])
    assert (rest["subjects"], rest["next"]) == (each_then[2:], None)
    two = ada.http.get("/api/v1/values/subjects?metric=energy&subject_keys=TOOL09&subject_keys=TOOL07").json()
    assert two["subjects"] == [each[0], each[2]]


def test_one_unknown_subject_or_metric_of_many_is_refused_with_the_nearest(plant: Plant, ada: Client) -> None:
    refused = ada.get("values/subjects", metric="energy", subject_keys="TOOL7", expect=404)
    assert "did you mean 'TOOL07'?" in refused["detail"]
    assert "did you mean 'energy'?" in ada.get("values/subjects", metric="enrgy", expect=404)["detail"]
    ada.get("values/subjects", metric="energy", dataset="tolls", expect=404)


def test_a_subject_that_is_not_rebuilt_yet_says_so_among_many(plant: Plant, ada: Client) -> None:
    before = plant.description.read_text()
    plant.redefine(
        before.replace(
            "[dataset.rollups.hourly]", '[dataset.metrics.readings]\nkind = "count"\n[dataset.rollups.hourly]'
        )
    )
    [told] = ada.get("values/subjects", metric="readings")["subjects"]
    assert (told["subject_key"], told["values"], told["rebuild_pending"]) == ("TOOL07", [], True)


def test_a_value_is_explained_as_on_the_command_line(
    plant: Plant, ada: Client, late: str, tmp_path: Path, dsn: str
) -> None:
    at = "2026-10-01T10:10:00Z"
    answer = ada.get("explain", subject_key="TOOL07", metric="energy", at=at)
    [told] = answer["explanations"]
    assert told["value"] == pytest.approx(told["base"] + told["local"])
    assert [file["source_uri"].rpartition("/")[2] for file in told["segment"]["files"]] == ["new.csv"]
    assert [restated["metric"] for restated in told["restatements"]] == ["energy"]
    command = [sys.executable, "-m", "disarray", "--dsn", dsn, "--state-dir", str(tmp_path)]
    asked_there = ["explain", "TOOL07", "energy", "--at", at, "--json"]
    printed = subprocess.run(
        [*command, *asked_there], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(printed.stdout) == answer
    ada.get("explain", subject_key="TOOL07", metric="nothing", expect=404)
