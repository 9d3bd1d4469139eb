"""A destination of a worker in a thread of its own: whatever becomes of it, files are taken in as ever."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.errors import DatabaseUnavailableError, DestinationError, DisarrayError

if TYPE_CHECKING:
    import threading

    from disarray.model.breaker import Breaker
    from disarray.sinks.destination_loader import DestinationLoader, LoadReport

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DestinationThread:
    """Loads a destination until it is told to stop. One that is away is tried again later and later."""

    loader: DestinationLoader
    database: Breaker  # of our own database, shared with the scheduler

    def run(self, stop: threading.Event) -> None:
        """Load what is due, every so often."""
        while self.database.await_turn(stop) and self.loader.breaker.await_turn(stop):
            try:
                with self.database.guard(), self.loader.breaker.guard():
                    self._load(stop)
            except (DatabaseUnavailableError, DestinationError):
                continue  # their breakers have said so
            except DisarrayError as error:
                log.warning("destination %s waits: %s", self.loader.destination.name, error)
            except Exception:
                log.exception("destination %s waits", self.loader.destination.name)
            stop.wait(self.loader.settings.every_seconds)

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
