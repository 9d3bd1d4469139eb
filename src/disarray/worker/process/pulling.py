"""The table sources of a worker in a thread of their own: each is read when it is due, one after the other."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.errors import ConfigError, DatabaseUnavailableError, DisarrayError
from disarray.model.duration import SECOND
from disarray.worker.process.repeating import repeat

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from disarray.model.breaker import Breaker
    from disarray.sources.table_puller import PulledBatch, TablePuller

log = logging.getLogger(__name__)

_LONGEST_NAP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SourcePuller:
    """Pulls sources until it is told to stop. One that cannot be read waits, and so does no other."""

    puller: TablePuller
    breaker: Breaker  # of the control database, shared with the scheduler
    on_delivered: Callable[[], None]

    def run(self, stop: threading.Event) -> None:
        """Ask for each source whether it is due, every so often."""
        shortest = min(source.every_us for source in self.puller.sources) / SECOND
        repeat(
            self._pull_due,
            stop,
            breakers=[self.breaker],
            every_seconds=min(shortest, _LONGEST_NAP_SECONDS),
            failure="sources could not be read and wait",
        )

    def _pull_due(self, stop: threading.Event) -> None:
        for source in self.puller.sources:
            batches = self.puller.pull(source)
            try:
                for pulled in batches:
                    if pulled.counts.taken:
                        log.info("%s", sentence_of(pulled))
                        self.on_delivered()
                    if stop.is_set():
                        return
            except DatabaseUnavailableError:
                raise
            except DisarrayError as error:
                log.warning("%s", error)
            except Exception:
                log.exception("source %s could not be read; it is tried again later", source.name)
            finally:
                batches.close()


def pull_all(puller: TablePuller, stop: threading.Event) -> tuple[int, dict[str, str]]:
    """Read every source once, due or not: the rows that were delivered, and why a source could not be read."""
    rows = 0
    failures: dict[str, str] = {}
    for source in puller.sources:
        batches = puller.pull(source, is_asked_for=True)
        was_read = False
        try:
            for pulled in batches:
                was_read = True
                rows += pulled.counts.taken
                if stop.is_set():
                    return rows, failures
            if not was_read and (holder := puller.holder_of(source)) is not None:
                failures[source.name] = f"it is being read by {holder}: its newest rows may not be in yet"
        except (DatabaseUnavailableError, ConfigError):
            raise
        except DisarrayError as error:
            failures[source.name] = str(error)
        finally:
            batches.close()
    return rows, failures


def sentence_of(pulled: PulledBatch) -> str:
    """One batch in a line."""
    counts = pulled.counts
    parts = [f"{counts.taken:,} row{'' if counts.taken == 1 else 's'} of {pulled.source} delivered"]
    if counts.duplicate:
        parts.append(f"{counts.duplicate:,} had come before")
    if counts.rejected:
        parts.append(f"{counts.rejected:,} rejected, see: disarray source show {pulled.source}")
    return "; ".join(parts)
