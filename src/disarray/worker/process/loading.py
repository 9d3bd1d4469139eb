"""A destination of a worker in a thread of its own: whatever becomes of it, files are taken in as ever."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.errors import DatabaseUnavailableError, DestinationError
from disarray.worker.process.repeating import repeat

if TYPE_CHECKING:
    from disarray.model.breaker import Breaker
    from disarray.sinks.destination_loader import DestinationLoader, LoadReport

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DestinationThread:
    """Loads a destination until it is told to stop. One that is away is tried again later and later."""

    loader: DestinationLoader
    database: Breaker  # of our own database, shared with the scheduler
    _awake: threading.Event = field(default_factory=threading.Event)

    def wake(self) -> None:
        """Say that there may be something to load, or to stop for."""
        self._awake.set()

    def run(self, stop: threading.Event) -> None:
        """Load what is due, every so often."""
        repeat(
            self._load,
            stop,
            # Its own first: whoever waits for a target must not hold the turn to try our database.
            breakers=[self.loader.breaker, self.database],
            every_seconds=self.loader.settings.every_seconds,
            failure=f"destination {self.loader.destination.name} waits",
            away=(DatabaseUnavailableError, DestinationError),
            awake=self._awake,
        )

    def _load(self, stop: threading.Event) -> None:
        for report in self.loader.load_due():
            log.info("%s", sentence_of(report))
            if stop.is_set():
                return


def sentence_of(report: LoadReport) -> str:
    """One load in a line."""
    what = "everything" if report.is_whole else f"{report.commits:,} commits"
    rows = f"{report.rows_loaded:,} rows loaded, {report.rows_deleted:,} gone"
    return f"{report.destination}: {report.subject_key}: {what} in {report.seconds:.2f} s: {rows}"
