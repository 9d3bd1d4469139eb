"""Hooks and the messages to them, over REST and in the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import side_effects
from disarray.control.hooks import register_hooks
from disarray.model.side_effect import HookCause

if TYPE_CHECKING:
    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres

HOOK = {
    "hook_name": "quality",
    "kind": "webhook",
    "causes": ["dead_letter", "no_data_since"],
    "subject_patterns": ["*"],
    "dataset_patterns": ["*"],
    "larger_than": {},
    "no_data_since_seconds": 7200,
    "stale_longer_than_seconds": None,
    "definition": {"url": "https://hooks.example.com"},
    "definition_digest": "d",
}


def test_hooks_and_messages_are_listed_in_pages_and_counted(plant: Plant, ada: Client) -> None:
    with plant.pool.connection() as connection:
        register_hooks(connection, [HOOK, HOOK | {"hook_name": "second"}])
        for number in range(2):
            side_effects.note_side_effects(
                connection,
                HookCause.DEAD_LETTER,
                subject_key="TOOL07",
                dataset="tools",
                occasion=str(number),
                summary="it was given up",
                details={"number": number},
            )
    page = ada.get("hooks", limit="1")
    assert [(each["hook_name"], each["pending"]) for each in page["hooks"]] == [("quality", 2)]
    assert page["hooks"][0]["no_data_since_seconds"] == 7200
    [second] = ada.get("hooks", after=page["next"])["hooks"]
    assert second["hook_name"] == "second"
    effects = ada.get("side-effects", hook_name="second", state="pending", limit="1")
    assert [each["details"] for each in effects["side_effects"]] == [{"number": 0}]
    [last] = ada.get("side-effects", hook_name="second", after=effects["next"])["side_effects"]
    assert (last["details"], last["cause"]) == ({"number": 1}, "dead_letter")
    assert ada.get("side-effects", state="dead")["side_effects"] == []
    assert ada.get("status")["side_effects"]["pending"] == 4
    figures = ada.http.get("/metrics").text
    assert 'disarray_side_effects{state="pending"} 4.0' in figures
    assert 'disarray_side_effects{state="dead"} 0.0' in figures
