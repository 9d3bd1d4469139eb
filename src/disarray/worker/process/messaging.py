"""The hooks of a worker, each in a thread of its own: one that is down or slow holds up nobody."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from disarray.control import side_effects
from disarray.errors import DatabaseUnavailableError, DisarrayError
from disarray.model.backoff import Backoff
from disarray.model.breaker import Breaker
from disarray.model.side_effect import EffectState
from disarray.sinks.hook_sending import HookSender

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Pool
    from disarray.control.queue import Holder
    from disarray.model.description.hook import Hook
    from disarray.sinks.hook_sending import SentEffect
    from disarray.sinks.hook_settings import HookSettings

log = logging.getLogger(__name__)

# The breaker of one receiver: whether it answers at all is tried after a second, then later and later. When a message
# that failed is sent again is in `sinks/hook_sending.py`.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
# Beyond what a message may take: who has not ended then hangs, and its claim runs out.
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Messenger:
    """Sends what waits for the hooks of a worker until it is told to stop, and looks for silence and staleness."""

    pool: Pool
    holder: Holder
    settings: HookSettings
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def run(self, stop: threading.Event) -> None:
        """One thread for each hook, and this one for what has no transaction of its own."""
        threads = [
            threading.Thread(
                target=self._guarded, args=(partial(self._serve, hook, stop), stop), name=f"hook {hook.name}"
            )
            for hook in self.settings.hooks
        ]
        for thread in threads:
            thread.daemon = True
            thread.start()
        self._guarded(partial(self._check, stop), stop)
        longest = max((hook.timeout_seconds for hook in self.settings.hooks), default=0.0)
        ends_at = time.monotonic() + longest + _END_SECONDS
        for thread in threads:
            thread.join(max(0.0, ends_at - time.monotonic()))

    def _guarded(self, step: Callable[[], float], stop: threading.Event) -> None:
        """Do a step again and again; each says how long to wait. Whatever fails, it goes on later."""
        database = Backoff(longest_s=5.0)
        while not stop.is_set():
            try:
                pause = step()
                database.succeeded()
            except DatabaseUnavailableError as error:
                # The scheduler tells of it, loudly and once.
                log.debug("messages to hooks wait: %s", error)
                pause = database.failed()
            except DisarrayError as error:
                log.warning("messages to hooks wait: %s", error)
                pause = database.failed()
            except Exception:
                # The worker goes on with its files.
                log.exception("messages to hooks wait")
                pause = database.failed()
            stop.wait(pause)

    def _serve(self, hook: Hook, stop: threading.Event) -> float:
        sender = HookSender(
            pool=self.pool, holder=self.holder, hook=hook, allow=self.settings.allow, turn=self._turn
        )
        breaker = Breaker(
            f"the receiver of the hook {hook.name}", backoff=Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        )
        while breaker.await_turn(stop):
            sent = sender.send_next()
            if sent is None:
                stop.wait(self.settings.every_seconds)
                continue
            log.log(logging.INFO if sent.outcome.is_done else logging.WARNING, "%s", sentence_of(sent))
            if sent.outcome.is_away:
                breaker.failed(sent.outcome.reason or "")
            else:
                breaker.succeeded()
        return 0.0

    def _check(self, stop: threading.Event) -> float:
        with self._turn, self.pool.connection() as connection:
            side_effects.note_conditions(connection, every_seconds=self.settings.check_seconds)
        return self.settings.check_seconds


def sentence_of(sent: SentEffect) -> str:
    """What became of one message, in a line."""
    message = f"hook {sent.effect.hook_name}: {sent.effect.cause} (side effect {sent.effect.effect_id})"
    match sent.state:
        case EffectState.DONE:
            return f"{message} sent: {sent.outcome.status}"
        case EffectState.DEAD:
            return f"{message} given up: {sent.outcome.reason}. See: disarray hook effects --state dead"
        case _:
            return f"{message} not sent, tried again later: {sent.outcome.reason}"
