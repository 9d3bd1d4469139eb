"""A sender is killed between every two steps, and again when it tries again: nothing is lost, and keys tell twins."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from email import message_from_string
from typing import TYPE_CHECKING

import pytest

from disarray.control import side_effects
from disarray.model.side_effect import HookCause
from disarray.sinks.hook_mail import KEY_HEADER
from tests.forked import live
from tests.sinks.hook_plant import HookPlant, mail, report, send_all, webhook
from tests.sinks.receivers import mail_receiver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sinks.receivers import Receiver

Make = Callable[[str], HookPlant]
SENDERS = ("effect.claimed", "effect.sent", "effect.recorded")
REPORTS = ("report.written",)
MESSAGES = 3


def note(plant: HookPlant, *, count: int = MESSAGES) -> list[str]:
    """Several causes; their keys."""
    with plant.pool.connection() as connection:
        for number in range(count):
            side_effects.note_side_effects(
                connection,
                HookCause.DEAD_LETTER,
                subject_key=f"TOOL{number}",
                dataset="press",
                occasion="one",
                summary="it was given up",
                details={},
            )
    return [each.idempotency_key for each in plant.effects()]


def kill_twice(dsn: str, folder: Path, point: str, hit: int) -> None:
    """The first attempt dies at the step, and so does the retry."""
    log = folder / "failpoints.log"
    for _ in range(2):
        armed = {"DISARRAY_FAILPOINTS": f"{point}=kill@{hit}", "DISARRAY_FAILPOINT_LOG": str(log)}
        assert live(send_all, dsn, folder, **armed) in (-signal.SIGKILL, 0)
    assert log.read_text().count(f"{point} kill") >= 1


@pytest.mark.parametrize(
    ("point", "hit"), [*((point, 1) for point in SENDERS), ("effect.sent", 2), ("effect.recorded", 3)]
)
def test_a_receiver_that_knows_keys_sees_every_message_once(
    make_plant: Make, receiver: Receiver, dsn: str, tmp_path: Path, point: str, hit: int
) -> None:
    plant = make_plant(webhook(receiver.port, on='["dead_letter"]'))
    keys = note(plant)
    kill_twice(dsn, tmp_path, point, hit)
    done = {each.idempotency_key for each in plant.effects(state="done")}
    sent_before = len(receiver.received)
    assert live(send_all, dsn, tmp_path) == 0
    assert plant.states() == ["done"] * MESSAGES
    assert sorted(receiver.keys) == sorted(keys)
    assert not done & {each.key for each in receiver.received[sent_before:]}, "what is done is not sent again"
    bodies = {each.key: each.body for each in receiver.received}
    assert all(bodies[each.key] == each.body for each in receiver.received), "the same bytes every time"
    # Only what was sent and not recorded can be there twice: at most one for each kill.
    twins = len(receiver.received) - MESSAGES
    assert twins <= (2 if point == "effect.sent" else 0)
    if (point, hit) == ("effect.sent", 1):
        assert twins > 0, "else nothing was shown"


@pytest.mark.parametrize("point", SENDERS)
def test_a_mailbox_that_knows_keys_has_every_message_once(
    make_plant: Make, dsn: str, tmp_path: Path, point: str
) -> None:
    with mail_receiver() as kept:
        plant = make_plant(mail(kept.port, on='["dead_letter"]'))
        keys = note(plant)
        kill_twice(dsn, tmp_path, point, 1)
        done = {each.idempotency_key for each in plant.effects(state="done")}
        sent_before = len(kept.mails)
        assert live(send_all, dsn, tmp_path) == 0
        assert plant.states() == ["done"] * MESSAGES
        found = [
            (message_from_string(content)[KEY_HEADER], recipients, content)
            for recipients, content in kept.mails
        ]
    assert sorted({key for key, *_ in found}) == sorted(keys)
    assert not done & {key for key, *_ in found[sent_before:]}, "what is done is not sent again"
    assert len(set(found)) == MESSAGES, "the same mail to the same people every time"
    twins = len(found) - MESSAGES
    assert (0 < twins <= 2) if point == "effect.sent" else twins == 0


@pytest.mark.parametrize("point", REPORTS)
def test_a_report_is_whole_or_not_there(make_plant: Make, dsn: str, tmp_path: Path, point: str) -> None:
    plant = make_plant(report(on='["dead_letter"]'))
    keys = note(plant)
    kill_twice(dsn, tmp_path, point, 1)
    for path in (tmp_path / "reports").rglob("*.json"):
        json.loads(path.read_text())
    assert live(send_all, dsn, tmp_path) == 0
    assert plant.states() == ["done"] * MESSAGES
    found = [json.loads(path.read_text())["key"] for path in (tmp_path / "reports").rglob("*.json")]
    assert sorted(found) == sorted(keys)
    assert list((tmp_path / "reports").rglob(".*.part")) == []


def test_who_is_killed_again_and_again_leaves_a_dead_letter_and_no_doubt(
    make_plant: Make, receiver: Receiver, dsn: str, tmp_path: Path
) -> None:
    plant = make_plant(webhook(receiver.port, on='["dead_letter"]'))
    note(plant, count=1)
    for _ in range(4):
        assert live(send_all, dsn, tmp_path, DISARRAY_FAILPOINTS="effect.claimed=kill@1") == -signal.SIGKILL
    assert live(send_all, dsn, tmp_path) == 0
    [dead] = plant.effects(state="dead")
    assert "ended without an answer; it may have arrived" in str(dead.reason)
    assert dead.attempts == 4
    assert receiver.received == []
