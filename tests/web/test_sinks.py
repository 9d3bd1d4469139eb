"""Destinations over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import destinations, instances
from disarray.control.destinations import register_destination

if TYPE_CHECKING:
    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


def test_what_nobody_has_loaded_yet_is_lag(plant: Plant, ada: Client) -> None:
    dataset = next(iter(plant.datasets))
    with plant.pool.connection() as connection:
        register_destination(
            connection, "hourly", dataset=dataset, definition={"target": "t"}, subject_patterns=["TOOL0*"]
        )
    [sink] = ada.get("sinks")["sinks"]
    assert (sink["state"], sink["subjects"], sink["subjects_behind"]) == ("behind", 1, 1)
    assert sink["lag_commits"] > 0
    shown = ada.get("sinks/hourly")
    assert [each["subject_key"] for each in shown["subjects"]] == ["TOOL07"]
    assert shown["subjects"][0]["whole_due"] is True
    ada.get("sinks/nightly", expect=404)


def test_a_destination_that_is_held_back_is_told_of_everywhere(plant: Plant, ada: Client) -> None:
    dataset = next(iter(plant.datasets))
    with plant.pool.connection() as connection:
        register_destination(
            connection, "hourly", dataset=dataset, definition={"target": "t"}, subject_patterns=["TOOL0*"]
        )
        assert 'disarray_sink_held_back{sink="hourly"} 0.0' in ada.http.get("/metrics").text
        holder = instances.register_instance(connection, "Worker07", subject_patterns=["NONE"])
        turn = destinations.claim_destination(connection, "hourly", holder, lease_seconds=60)
        assert turn is not None
        destinations.hold_destination_back(connection, turn, "9 of 9 rows would go")
        assert destinations.claim_destination(connection, "hourly", holder, lease_seconds=60) is None
    [sink] = ada.get("sinks")["sinks"]
    assert (sink["state"], sink["held_back"], sink["pause_reason"]) == (
        "paused",
        True,
        "9 of 9 rows would go",
    )
    assert 'disarray_sink_held_back{sink="hourly"} 1.0' in ada.http.get("/metrics").text
    [event] = plant.rows(
        "select instance_name, metadata ->> 'reason' from disarray.ingest_event where event_type = 'destination_paused'"
    )
    assert event == ("Worker07", "9 of 9 rows would go")
