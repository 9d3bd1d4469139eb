"""Receivers that behave badly: the state is clear, nothing is lost, and nobody else waits."""

from __future__ import annotations

import hashlib
import hmac
import ssl
import threading
import time
from collections.abc import Callable
from email import message_from_string
from email.policy import default
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.smtp import AuthResult

from disarray.control import side_effects
from disarray.errors import LeaseLostError
from disarray.model.side_effect import EffectOutcome, HookCause
from disarray.sinks import hook_sending
from disarray.sinks.hook_sending import HookSender
from disarray.worker.process.messaging import Messenger
from tests.processes import eventually
from tests.sinks.hook_plant import HookPlant, mail, report, webhook
from tests.sinks.receivers import answer, crude_mail_server, drip, flood, hang, http_receiver, mail_receiver

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

    from tests.sinks.receivers import Receiver

Make = Callable[[str], HookPlant]
CERTIFICATE = Path(__file__).parent / "localhost.pem"
ON = '["dead_letter"]'


def note(plant: HookPlant, *, subject: str = "TOOL07", count: int = 1) -> None:
    """Something happens."""
    with plant.pool.connection() as connection:
        for number in range(count):
            side_effects.note_side_effects(
                connection,
                HookCause.DEAD_LETTER,
                subject_key=subject,
                dataset="press",
                occasion=f"item {number}",
                summary=f"item {number} was given up",
                details={"number": number},
            )


def sender_of(plant: HookPlant) -> HookSender:
    [hook] = plant.settings.hooks
    return HookSender(pool=plant.pool, holder=plant.place.holder, hook=hook, allow=plant.settings.allow)


def outcome_of(plant: HookPlant) -> EffectOutcome:
    note(plant)
    [sent] = plant.send()
    return sent.outcome


def test_a_message_is_signed_over_its_time_and_its_body(
    make_plant: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    plant = make_plant(webhook(receiver.port, on=ON, more='secret = { env = "HOOK_SECRET" }'))
    assert outcome_of(plant).is_done
    [told] = receiver.received
    at, signature = (part.partition("=")[2] for part in told.headers["Disarray-Signature"].split(","))
    expected = hmac.new(b"s3cret", f"{at}.".encode() + told.body, hashlib.sha256).hexdigest()
    assert signature == expected
    assert abs(time.time() - int(at)) < 300
    assert (told.path, told.headers["Disarray-Cause"]) == ("/told", "dead_letter")
    [kept] = plant.effects()
    assert (kept.answer_status, kept.answer) == ("200 OK", '{"ok": true}')


def test_a_secret_that_is_missing_is_named_and_nothing_is_sent(make_plant: Make, receiver: Receiver) -> None:
    plant = make_plant(webhook(receiver.port, on=ON, more='secret = { file = "nowhere.txt" }'))
    outcome = outcome_of(plant)
    assert "nowhere.txt cannot be read" in str(outcome.reason)
    assert receiver.received == []
    assert plant.states() == ["pending"]


@pytest.mark.parametrize("status", [400, 401, 404, 410, 500, 503])
def test_a_status_that_is_no_success_is_a_failure(make_plant: Make, receiver: Receiver, status: int) -> None:
    plant = make_plant(webhook(receiver.port, on=ON))
    receiver.behave = answer(status, b"why not")
    outcome = outcome_of(plant)
    assert str(outcome.reason).startswith(f"answered {status}")
    assert (outcome.answer, outcome.is_away) == ("why not", status >= 500)
    assert plant.states() == ["pending"]


def test_a_redirect_is_not_followed(make_plant: Make, receiver: Receiver) -> None:
    plant = make_plant(webhook(receiver.port, on=ON))
    with http_receiver() as elsewhere:
        receiver.behave = answer(307, Location=elsewhere.url)
        outcome = outcome_of(plant)
        assert "which is not followed" in str(outcome.reason)
        assert elsewhere.received == []
    assert len(receiver.received) == 1


@pytest.mark.parametrize("slowly", ["hang", "drip"])
def test_a_receiver_that_does_not_come_to_an_end_is_cut_off(
    make_plant: Make, receiver: Receiver, slowly: str
) -> None:
    plant = make_plant(webhook(receiver.port, on=ON).replace('"2 s"', '"0.3 s"'))
    over = threading.Event()
    receiver.behave = hang(over) if slowly == "hang" else drip
    outcome = outcome_of(plant)
    over.set()
    assert outcome.reason == "no answer within 0.3 s" or "timed out" in str(outcome.reason)
    assert outcome.is_away


def test_of_ten_gigabytes_only_the_first_kilobyte_is_read(make_plant: Make, receiver: Receiver) -> None:
    plant = make_plant(webhook(receiver.port, on=ON))
    sent = [0]
    receiver.behave = flood(sent)
    outcome = outcome_of(plant)
    assert outcome.is_done
    assert outcome.answer == "x" * 1024
    assert sent[0] < 64 << 20  # what the buffers of the two sockets hold


def test_a_receiver_that_is_down_is_away(make_plant: Make, receiver: Receiver) -> None:
    plant = make_plant(webhook(receiver.port, on=ON))
    receiver.shutdown()
    receiver.server_close()
    outcome = outcome_of(plant)
    assert outcome.is_away
    assert "ConnectionRefusedError" in str(outcome.reason)


def test_a_certificate_is_checked_and_can_be_trusted_by_file(make_plant: Make) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with http_receiver(context) as receiver:
        described = webhook(receiver.port, on=ON).replace("http://", "https://")
        plant = make_plant(described)
        assert "certificate verify failed" in str(outcome_of(plant).reason)
        assert receiver.received == []
        plant.configure(f'{described}ca_file = "{CERTIFICATE}"')
        plant.advance(2)
        [sent] = plant.send()
        assert sent.outcome.is_done
        assert [each.key for each in receiver.received] == [sent.effect.idempotency_key]


def test_a_claim_that_may_be_over_sends_nothing(
    make_plant: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = make_plant(webhook(receiver.port, on=ON))
    note(plant)
    times = iter([0.0])

    class FrozenFor:
        @staticmethod
        def monotonic() -> float:
            return next(times, 10_000.0)

    monkeypatch.setattr(hook_sending, "time", FrozenFor)
    assert sender_of(plant).send_next() is None
    assert receiver.received == []
    [effect] = plant.effects()
    assert (effect.state, effect.attempts) == ("pending", 0)


def test_who_lost_its_claim_cannot_settle_it(make_plant: Make, receiver: Receiver) -> None:
    plant = make_plant(webhook(receiver.port, on=ON))
    note(plant)
    [hook] = plant.settings.hooks
    with plant.pool.connection() as connection:
        held = side_effects.claim_side_effect(
            connection,
            hook.name,
            plant.place.holder,
            definition_digest=hook.digest(),
            lease_seconds=60,
            max_attempts=4,
        )
    assert held is not None
    assert plant.send() == [], "it is held"
    plant.advance(2)
    seen: list[str] = []

    def settle_late(handler: BaseHTTPRequestHandler) -> None:
        """While the second sender has its message under way, the first wakes up."""
        with plant.pool.connection() as connection, pytest.raises(LeaseLostError):
            side_effects.settle_side_effect(
                connection, held, EffectOutcome(reason="late"), retry_seconds=0, max_attempts=4
            )
        seen.extend(plant.states())
        answer(200)(handler)

    receiver.behave = settle_late
    [sent] = plant.send()
    assert seen == ["sending"]
    assert sent.effect.attempts == 2
    assert plant.states() == ["done"]
    with plant.pool.connection() as connection, pytest.raises(LeaseLostError):
        side_effects.settle_side_effect(
            connection, held, EffectOutcome(reason="late"), retry_seconds=0, max_attempts=4
        )
    with plant.pool.connection() as connection:
        assert not side_effects.release_side_effect(connection, held)
    assert plant.states() == ["done"]
    assert plant.send() == []


def test_a_mail_reaches_all_with_its_key_and_no_header_can_be_smuggled_in(make_plant: Make) -> None:
    with mail_receiver() as kept:
        plant = make_plant(mail(kept.port, on=ON))
        note(plant, subject="TOOL\nBcc: eve@example.com")
        [sent] = plant.send()
        assert sent.outcome.is_done
        [(recipients, content)] = kept.mails
    assert recipients == ("a@example.com", "b@example.com")
    found = message_from_string(content, policy=default)
    assert found["Subject"] == "[plant] dead_letter: TOOL Bcc: eve@example.com"
    assert found["Bcc"] is None
    assert found["Disarray-Idempotency-Key"] == sent.effect.idempotency_key
    assert sent.effect.idempotency_key in found["Message-ID"]
    assert "item 0 was given up" in found.get_content()


def test_one_recipient_that_is_refused_is_tried_again_alone(make_plant: Make) -> None:
    with mail_receiver() as kept:
        kept.refused = {"b@example.com"}
        plant = make_plant(mail(kept.port, on=ON))
        note(plant)
        [sent] = plant.send()
        assert (sent.state, sent.outcome.accepted) == ("pending", ("a@example.com",))
        assert "b@example.com: 550 no such mailbox" in str(sent.outcome.reason)
        plant.advance(2)
        plant.send()
        assert [recipients for recipients, _ in kept.mails] == [("a@example.com",)]
        for _ in range(2):
            plant.advance(30)
            plant.send()
        [effect] = plant.effects(state="dead")
        assert effect.accepted == ["a@example.com"]
        kept.refused = set()
        with plant.pool.connection() as connection:
            side_effects.resend_side_effects(connection, [effect.effect_id], reason="mended", by="ada")
        [sent] = plant.send()
        assert sent.outcome.is_done
        assert [recipients for recipients, _ in kept.mails] == [("a@example.com",), ("b@example.com",)]


def test_a_server_that_hangs_up_in_the_middle_has_taken_nothing_for_anybody(make_plant: Make) -> None:
    with crude_mail_server(hang_up_at=b"b@example.com") as (port, taken):
        outcome = outcome_of(make_plant(mail(port, on=ON)))
    assert (outcome.accepted, taken) == ((), [])
    assert outcome.is_away


def test_a_mail_that_was_taken_is_done_whatever_the_server_says_to_quit(make_plant: Make) -> None:
    with crude_mail_server(to_quit=b"421 4.3.2 shutting down") as (port, taken):
        outcome = outcome_of(make_plant(mail(port, on=ON)))
    assert outcome.is_done
    assert len(taken) == 1


def test_a_password_goes_over_tls_alone(make_plant: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    monkeypatch.setenv("MAIL_PASSWORD", "s3cret")
    seen: list[tuple[bytes, bytes]] = []

    def authenticate(_: Any, __: Any, ___: Any, mechanism: str, given: Any) -> AuthResult:
        seen.append((given.login, given.password))
        return AuthResult(success=True)

    with mail_receiver(
        tls_context=context, require_starttls=True, authenticator=authenticate, auth_required=True
    ) as kept:
        smtp = f'user = "ada", password = {{ env = "MAIL_PASSWORD" }}, ca_file = "{CERTIFICATE}"'
        plant = make_plant(mail(kept.port, on=ON, smtp=smtp))
        outcome = outcome_of(plant)
        assert outcome.is_done, outcome.reason
    assert seen == [(b"ada", b"s3cret")]
    assert len(kept.mails) == 1
    assert "s3cret" not in str(plant.rows("select definition from disarray.hook"))


def test_a_mail_server_that_is_down_keeps_the_mail_waiting(make_plant: Make) -> None:
    with mail_receiver() as kept:
        plant = make_plant(mail(kept.port, on=ON))
    outcome = outcome_of(plant)
    assert outcome.is_away
    assert plant.states() == ["pending"]


def test_a_report_that_cannot_be_written_waits(make_plant: Make, tmp_path: Path) -> None:
    plant = make_plant(report(on=ON))
    (tmp_path / "reports").write_text("in the way")
    assert "cannot be written" in str(outcome_of(plant).reason)
    (tmp_path / "reports").unlink()
    plant.advance(2)
    [sent] = plant.send()
    assert sent.outcome.is_done


def test_hooks_that_hang_or_are_down_hold_up_no_other_hook_and_no_commit(
    make_plant: Make, receiver: Receiver
) -> None:
    over = threading.Event()
    with http_receiver() as hanging, http_receiver() as failing:
        hanging.behave = hang(over)
        failing.behave = answer(503)
        plant = make_plant(
            webhook(receiver.port, name="good", on='["dead_letter", "restatement"]')
            + webhook(hanging.port, name="hanging", on=ON).replace('"2 s"', '"20 s"')
            + webhook(failing.port, name="failing", on=ON)
        )
        note(plant, count=20)
        stop = threading.Event()
        messenger = Messenger(plant.pool, plant.place.holder, plant.settings)
        thread = threading.Thread(target=messenger.run, args=(stop,))
        thread.start()
        try:
            eventually(lambda: len(receiver.received) == 20)
            assert len(hanging.received) <= 1
            # The breaker is open: a few were tried, the others keep their attempts.
            assert len(failing.received) < 20
            plant.first_file()
            plant.late_file()
            eventually(lambda: len(receiver.received) == 21)
            assert receiver.received[-1].document["cause"] == "restatement"
            assert thread.is_alive()
        finally:
            over.set()
            stop.set()
            thread.join(60)
    assert not thread.is_alive()
    found = plant.rows(
        "select hook_name, count(*) filter (where state = 'done') from disarray.side_effect group by 1 order by 1"
    )
    assert found == [("failing", 0), ("good", 21), ("hanging", found[2][1])]
