"""`disarray hook`: who is told, what was sent, what was given up, and sending it again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from disarray.control import side_effects
from disarray.model.side_effect import HookCause
from tests.sinks.hook_plant import HookPlant, webhook
from tests.sinks.receivers import answer, http_receiver

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.sinks.receivers import Receiver

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with http_receiver() as server:
        yield server


@pytest.fixture
def plant(tmp_path: Path, dsn: str, receiver: Receiver) -> Iterator[HookPlant]:
    """One message waits for the hook quality."""
    built = HookPlant(tmp_path, dsn, webhook(receiver.port, on='["dead_letter"]'))
    with built.pool.connection() as connection:
        side_effects.note_side_effects(
            connection,
            HookCause.DEAD_LETTER,
            subject_key="TOOL07",
            dataset="press",
            occasion="one",
            summary="it was given up",
            details={},
        )
    yield built
    built.pool.close()


def test_what_waits_is_listed_sent_and_then_done(run: Run, plant: HookPlant, receiver: Receiver) -> None:
    assert "1 message waits to be sent to hooks" in run("status").stdout
    [listed] = json.loads(run("hook", "list", "--json").stdout)
    assert (listed["hook_name"], listed["pending"], listed["done"]) == ("quality", 1, 0)
    told = run("hook", "send")
    assert told.returncode == 0, told.stderr
    assert "sent: 200 OK" in told.stdout
    assert run("hook", "send").stdout == "Nothing is due.\n"
    assert len(receiver.received) == 1
    shown = run("hook", "show", "quality").stdout
    assert "0 pending, 0 being sent, 1 done, 0 dead" in shown
    assert f"http://127.0.0.1:{receiver.port}/told" in shown
    assert "did you mean 'quality'" in run("hook", "show", "qualty").stderr
    [effect] = json.loads(run("hook", "effects", "--state", "done", "--json").stdout)["side_effects"]
    assert (effect["answer_status"], effect["attempts"]) == ("200 OK", 1)
    refused = run("hook", "resend", str(effect["effect_id"]))
    assert refused.returncode == 1
    assert "it is done" in refused.stderr


def test_a_dead_one_is_listed_and_sent_again_by_a_person(
    run: Run, plant: HookPlant, receiver: Receiver
) -> None:
    receiver.behave = answer(500)
    for _ in range(4):
        failed = run("hook", "send")
        assert failed.returncode == 1
        plant.advance(26)
    assert "given up: answered 500" in failed.stderr
    assert "1 message to hooks given up" in run("status").stdout
    assert "dead" in run("hook", "effects", "--state", "dead").stdout
    receiver.behave = answer(200)
    assert "nothing was changed" in run("hook", "resend", "--all", "--dry-run").stdout
    assert plant.states() == ["dead"]
    assert run("hook", "resend", "--all", "--reason", "mended").returncode == 0
    assert run("hook", "send").returncode == 0
    assert plant.states() == ["done"]
    assert len(receiver.keys) == 1


def test_a_test_message_is_marked_and_leaves_nothing(run: Run, plant: HookPlant, receiver: Receiver) -> None:
    told = run("hook", "test", "quality")
    assert told.returncode == 0, told.stderr
    [received] = receiver.received
    assert received.document["is_test"] is True
    assert received.key.startswith("test-")
    assert received.key in told.stdout
    assert plant.states() == ["pending"]
    receiver.behave = answer(404, b"no such hook")
    failed = run("hook", "test", "quality", "--json")
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["answer"] == "no such hook"


def test_a_hook_that_is_written_wrongly_stops_the_command_with_every_fault(
    run: Run, plant: HookPlant
) -> None:
    plant.description.write_text(plant.description.read_text().replace("dead_letter", "dead_leter"))
    told = run("hook", "test", "quality")
    assert told.returncode == 1
    assert "did you mean 'dead_letter'" in told.stderr
