"""The initial loads of table sources of a worker, in a thread of their own: round after round, while files come in."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.errors import ConfigError, DatabaseUnavailableError, DisarrayError
from disarray.worker.process.repeating import repeat

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from disarray.model.breaker import Breaker
    from disarray.model.description.table_source import TableSource
    from disarray.sources.initial_load import InitialLoader, LoadRound

log = logging.getLogger(__name__)

_NAP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class InitialLoadThread:
    """Carries out loads until it is told to stop. One that cannot go on waits, and so does no other."""

    loader: InitialLoader
    breaker: Breaker  # of the control database, shared with the scheduler
    on_delivered: Callable[[], None]

    def run(self, stop: threading.Event) -> None:
        """Look for loads that are due, every so often."""
        repeat(
            self._load_due,
            stop,
            breakers=[self.breaker],
            every_seconds=_NAP_SECONDS,
            failure="initial loads wait",
        )

    def _load_due(self, stop: threading.Event) -> None:
        for source in self.loader.sources:
            try:
                for round_ in load_rounds(self.loader, source, stop):
                    if (line := sentence_of(round_)) is not None:
                        log.info("%s", line)
                    self.on_delivered()
            except DatabaseUnavailableError:
                raise
            except DisarrayError as error:
                log.warning("%s", error)
            except Exception:
                if stop.is_set():
                    return  # the engine was told to break off
                log.exception("the initial load of %s could not go on; it is tried again later", source.name)


def load_rounds(loader: InitialLoader, source: TableSource, stop: threading.Event) -> Iterator[LoadRound]:
    """Rounds of one load until it is done, has to wait, or is to stop."""
    while not stop.is_set() and (found := loader.load_round(source)) is not None:
        yield found
        if found.is_done or found.is_waiting:
            return


def load_all(loader: InitialLoader, stop: threading.Event) -> tuple[int, dict[str, str]]:
    """Carry out all loads as far as they go: rows that were delivered, and why one could not be ended."""
    rows = 0
    failures: dict[str, str] = {}
    for source in loader.sources:
        try:
            for round_ in load_rounds(loader, source, stop):
                rows += round_.rows
                if round_.is_waiting:
                    failures[source.name] = waiting_sentence(source.name)
        except (DatabaseUnavailableError, ConfigError):
            raise
        except DisarrayError as error:
            failures[source.name] = str(error)
    return rows, failures


def waiting_sentence(name: str) -> str:
    """Why a load did not come to its end."""
    return (
        f"The initial load of {name} is not over: what is left waits for transactions of the source that are still "
        f"open, or is read by another worker. See: disarray source show {name}"
    )


def sentence_of(round_: LoadRound) -> str | None:
    """One round in a line; None where there is nothing to say."""
    if round_.is_done:
        return f"initial load of {round_.source}: done"
    if not round_.chunks:
        return None
    return (
        f"initial load of {round_.source}: {round_.rows:,} rows in {round_.chunks:,} "
        f"chunk{'' if round_.chunks == 1 else 's'} delivered"
    )
