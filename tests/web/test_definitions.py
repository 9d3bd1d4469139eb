"""What is described, over REST: datasets, metrics, rollups, channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


def test_datasets_are_listed_with_what_is_computed_from_them(plant: Plant, ada: Client) -> None:
    [dataset] = ada.get("datasets")["datasets"]
    assert (dataset["dataset"], dataset["subjects"], dataset["segment_us"]) == ("tools", 1, 3_600_000_000)
    assert (dataset["metrics"], dataset["rollups"]) == (["energy", "good_total"], ["hourly"])


def test_metrics_and_rollups_are_listed_as_they_are_defined(plant: Plant, ada: Client) -> None:
    first = ada.get("metrics-defined", limit="1")
    [energy] = first["metrics"]
    assert (energy["metric"], energy["kind"], energy["input"]) == ("energy", "integral", "watts")
    [total] = ada.get("metrics-defined", after=first["next"])["metrics"]
    assert (total["metric"], total["kind"]) == ("good_total", "sum")
    [hourly] = ada.get("rollups-defined", dataset="tools")["rollups"]
    assert (hourly["bucket"], hourly["zone"], hourly["length_us"]) == ("clock", "UTC", 3_600_000_000)
    assert [each["function"] for each in hourly["aggregates"]] == ["count", "avg"]
    assert ada.get("rollups-defined", dataset="others")["rollups"] == []


def test_the_channels_of_a_subject_say_which_metrics_they_have(plant: Plant, ada: Client) -> None:
    [channel] = ada.get("channels", subject_key="TOOL07")["channels"]
    assert (channel["channel"], channel["metrics"]) == ("", ["energy", "good_total"])
    assert channel["last"] == "2026-10-01T11:59:30Z"
    assert "did you mean 'TOOL07'?" in ada.get("channels", subject_key="TOOL7", expect=404)["detail"]
