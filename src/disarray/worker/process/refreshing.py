"""The views of a plant, refreshed by a worker in a thread of its own when what they depend on was committed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.worker.process.repeating import repeat

if TYPE_CHECKING:
    import threading

    from disarray.model.breaker import Breaker
    from disarray.sinks.views import ViewRefresher

log = logging.getLogger(__name__)

# How often a worker asks whether a view is due; without views that costs next to nothing.
EVERY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ViewThread:
    """Refreshes views until it is told to stop. The pipeline never waits for one."""

    refresher: ViewRefresher
    breaker: Breaker  # of the database, shared with the scheduler

    def run(self, stop: threading.Event) -> None:
        """Refresh what is due, every so often."""
        repeat(
            self._refresh,
            stop,
            breakers=[self.breaker],
            every_seconds=EVERY_SECONDS,
            failure="views could not be refreshed and wait",
        )

    def _refresh(self, stop: threading.Event) -> None:
        for done in self.refresher.refresh_due():
            if done.error is None:
                log.info("view %s refreshed in %.1f s", done.name, done.seconds)
            if stop.is_set():
                return
