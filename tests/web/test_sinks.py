"""Destinations over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
