"""Files that disagree under one key, over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


def test_files_that_disagree_are_listed_and_counted_with_each_of_them(plant: Plant, ada: Client) -> None:
    assert ada.get("conflicts") == {"conflicts": [], "next": None}
    correction = plant.write("TOOL07/correction.csv", "time,watts,good\n2026-10-01T09:00:00+00:00,77.5,1\n")
    plant.ingest(correction)
    [found] = ada.get("conflicts", subject_key="TOOL07")["conflicts"]
    assert (found["winner"], found["loser"]) == (str(plant.inbox / "TOOL07/new.csv"), str(correction))
    assert found["examples"][0]["differences"] == {"watts": [9.0, 77.5], "good": [0, 1]}
    assert ada.get("conflicts", subject_key="TOOL08")["conflicts"] == []
    assert ada.get("files/show", source_uri=str(correction))["conflicts"] == {
        "won": 0,
        "lost": 1,
        "segments": 1,
    }
