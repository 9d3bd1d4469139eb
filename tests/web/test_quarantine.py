"""The quarantine over REST: list, preview, release, reject."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.cli.support.serving import Previewer
from disarray.web.app import create_app
from disarray.web.route import Scope, Sources
from tests.web.conftest import Client, add_token

if TYPE_CHECKING:
    from tests.plant import Plant

pytestmark = pytest.mark.postgres


def test_what_waits_is_listed_with_its_span(plant: Plant, ada: Client, late: str) -> None:
    [waiting] = ada.get("quarantine")["waiting"]
    assert (waiting["source_uri"], waiting["readings"], waiting["why"]) == (late, 120, "beyond the horizon")
    assert (waiting["first"], waiting["last"]) == ("2026-10-01T02:00:00Z", "2026-10-01T02:59:30Z")
    assert ada.get("quarantine", subject_key="TOOL08")["waiting"] == []


def test_a_release_does_what_the_preview_said(plant: Plant, late: str) -> None:
    lake = plant.place.lake
    sources = Sources(plant.pool, lake, plant.datasets, preview=Previewer(plant.datasets, lake))
    ada = Client(create_app(sources), token=add_token(plant.pool, "ada", Scope.OPERATE))
    [plan] = ada.get("quarantine/preview", source_uri=late)["plans"]
    assert (
        ada.post("quarantine/release", source_uri=late, reason="the clock was right")["queue_id"] is not None
    )
    plant.drain()
    assert {change["metric"] for change in plan["totals"]} == {"energy", "good_total"}
    for change in plan["totals"]:
        [now] = ada.get("values", subject_key="TOOL07", metric=change["metric"])["values"]
        assert now["value"] == change["new"]
    assert ada.get("quarantine")["waiting"] == []
    assert "is in quarantine" in ada.get("quarantine/preview", source_uri=late, expect=409)["detail"]


def test_a_host_that_cannot_preview_says_where_one_can(ada: Client, late: str) -> None:
    assert (
        "disarray quarantine preview" in ada.get("quarantine/preview", source_uri=late, expect=501)["detail"]
    )


def test_a_rejection_drops_the_parked_readings_once(plant: Plant, ada: Client, late: str) -> None:
    assert ada.post("quarantine/reject", source_uri=late, reason="wrong clock")["readings"] == 120
    ada.post("quarantine/reject", source_uri=late, reason="wrong clock", expect=409)
    ada.post("quarantine/release", source_uri=late, reason="right clock", expect=409)
