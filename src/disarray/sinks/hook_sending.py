"""Messages to one hook, one after the other: claimed, sent, settled with the answer.

Three steps, each whole or not at all: the claim is committed; the message leaves; what the other side said is
recorded. Killed between the second and the third, a sender leaves a message that is sent again under the same key.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from disarray.control import side_effects
from disarray.errors import ControlError, DisarrayError, LeaseLostError
from disarray.failpoints import failpoint
from disarray.model.backoff import jittered
from disarray.model.description.hook import Mail, Report, Webhook
from disarray.model.side_effect import EffectOutcome, EffectState
from disarray.sinks.hook_connection import Outgoing
from disarray.sinks.hook_mail import send_mail
from disarray.sinks.hook_message import message_of
from disarray.sinks.hook_report import write_report
from disarray.sinks.hook_webhook import send_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection, Pool
    from disarray.control.queue import Holder
    from disarray.control.side_effects import ClaimedEffect
    from disarray.model.description.hook import Hook
    from disarray.model.outgoing_addresses import AllowList
    from disarray.sinks.hook_message import HookMessage

log = logging.getLogger(__name__)

RETRY_SECONDS = (60.0, 300.0, 1500.0)
MAX_ATTEMPTS = len(RETRY_SECONDS) + 1
# Beyond what a message may take: for its name to be looked up, and for the database.
LEASE_MARGIN_SECONDS = 120


class _ClaimOverError(DisarrayError):
    """A claim may be somebody else's by now. Nothing was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEffect:
    """What became of one message."""

    effect: ClaimedEffect
    outcome: EffectOutcome
    state: EffectState


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSender:
    """Sends what waits for one hook. Any number of workers may do so at once."""

    pool: Pool
    holder: Holder
    hook: Hook
    allow: AllowList
    # Shared by the senders of a process, so that many hooks take no connections from those who work.
    turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def lease_seconds(self) -> int:
        return int(self.hook.timeout_seconds) + LEASE_MARGIN_SECONDS

    def send_next(self) -> SentEffect | None:
        """Send the message that is due first; None where none is, or where its claim was lost on the way."""
        claimed_at = time.monotonic()
        with self._database() as connection:
            effect = side_effects.claim_side_effect(
                connection,
                self.hook.name,
                self.holder,
                definition_digest=self.hook.digest(),
                lease_seconds=self.lease_seconds,
                max_attempts=MAX_ATTEMPTS,
            )
        if effect is None:
            return None
        failpoint("effect.claimed", about=self.hook.name)
        lease_seconds = self.lease_seconds

        def refuse_late() -> None:
            # Frozen for so long, another worker may have sent it and recorded it as done.
            if time.monotonic() - claimed_at > lease_seconds - self.hook.timeout_seconds:
                raise _ClaimOverError(f"the claim of side effect {effect.effect_id} may be over")

        outgoing = Outgoing(
            allow=self.allow, timeout_seconds=self.hook.timeout_seconds, before_sending=refuse_late
        )
        try:
            outcome = attempt(self.hook, message_of(effect), outgoing, accepted=tuple(effect.accepted))
        except _ClaimOverError as error:
            log.warning("%s: it is given back, nothing was sent", error)
            with suppress(ControlError), self._database() as connection:
                side_effects.release_side_effect(connection, effect)
            return None
        failpoint("effect.sent", about=self.hook.name)
        try:
            state = self._settle(effect, outcome)
        except LeaseLostError as error:
            log.warning("%s", error)
            return None
        failpoint("effect.recorded", about=self.hook.name)
        return SentEffect(effect=effect, outcome=outcome, state=state)

    def _settle(self, effect: ClaimedEffect, outcome: EffectOutcome) -> EffectState:
        retry_seconds = jittered(RETRY_SECONDS[min(effect.attempts, len(RETRY_SECONDS)) - 1])
        with self._database() as connection:
            return side_effects.settle_side_effect(
                connection, effect, outcome, retry_seconds=retry_seconds, max_attempts=MAX_ATTEMPTS
            )

    @contextmanager
    def _database(self) -> Iterator[Connection]:
        with self.turn, self.pool.connection() as connection:
            yield connection


def attempt(
    hook: Hook, message: HookMessage, outgoing: Outgoing, *, accepted: tuple[str, ...] = ()
) -> EffectOutcome:
    """Send a message once. Whatever the other side does is an outcome, and so is a secret that cannot be read."""
    try:
        match hook.target:
            case Webhook():
                return send_webhook(hook.target, message, outgoing)
            case Mail():
                return send_mail(hook.target, message, outgoing, accepted=accepted)
            case Report():
                return write_report(hook.target, message, outgoing)
            case _:
                assert_never(hook.target)
    except _ClaimOverError:
        raise
    except DisarrayError as error:
        return EffectOutcome(reason=str(error), accepted=accepted)
    except Exception as error:
        # Else this one message would be claimed and dropped for ever, with no word in the ledger.
        log.exception("a message to the hook %s could not be made", hook.name)
        return EffectOutcome(reason=f"{type(error).__name__}: {error}", accepted=accepted)
