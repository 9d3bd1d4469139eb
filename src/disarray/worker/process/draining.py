"""The inbox of a worker in a thread of its own: what programs sent is delivered every few seconds."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.worker.process.repeating import repeat

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from disarray.model.breaker import Breaker
    from disarray.sources.inbox import DrainedBatch, Inbox

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InboxDrainer:
    """Drains an inbox until it is told to stop. What cannot be delivered now waits, and so does nobody else."""

    inbox: Inbox
    breaker: Breaker  # of the database, shared with the scheduler
    on_delivered: Callable[[], None]

    def run(self, stop: threading.Event) -> None:
        """Deliver what waits, every so often."""
        repeat(
            self._drain,
            stop,
            breakers=[self.breaker],
            every_seconds=self.inbox.settings.every_seconds,
            failure="events could not be delivered and wait",
        )

    def _drain(self, stop: threading.Event) -> None:
        for drained in self.inbox.drain():
            log.info("%s", sentence_of(drained))
            if drained.delivered:
                self.on_delivered()
            if stop.is_set():
                return


def sentence_of(drained: DrainedBatch) -> str:
    """One batch in a line."""
    parts = [f"{drained.delivered:,} of {drained.events:,} events of {drained.dataset} delivered"]
    if drained.waiting:
        parts.append(f"{drained.waiting:,} could not be read and are tried again")
    if drained.dead:
        parts.append(f"{drained.dead:,} given up, see: disarray inbox dead-letters")
    return "; ".join(parts)
