"""A circuit breaker: while something is away nobody hammers it, and when it is back everybody notices at once."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.model.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

# A trial that says nothing for so long is over: its thread may be gone.
_TRIAL_SECONDS = 30.0
_LONGEST_NAP_SECONDS = 0.2


class State(StrEnum):
    """Closed: all is well. Open: nobody tries. Half-open: one tries, the others wait for what comes of it."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker:
    """Shared by all threads that need one thing; going and coming back are one line each in the log."""

    def __init__(
        self,
        name: str,
        *failures: type[Exception],
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.state = State.CLOSED
        self._failures = failures
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._lock = threading.Lock()
        self._due = 0.0  # when open: the next trial; when half-open: when the trial counts as lost
        self._opened_at = 0.0
        self._attempts = 0

    def await_turn(self, stop: threading.Event) -> bool:
        """Wait until a try makes sense; False if told to stop meanwhile."""
        while not stop.is_set():
            delay = self._until_turn()
            if delay <= 0:
                return True
            stop.wait(min(delay, _LONGEST_NAP_SECONDS))
        return False

    def take_turn(self) -> bool:
        """Whether a try makes sense now, for those who have something else to do; whoever hears so has to try."""
        return self._until_turn() <= 0

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Learn from what happens inside: a failure opens the circuit, an end without one closes it."""
        try:
            yield
        except self._failures as error:
            self.failed(str(error))
            raise
        self.succeeded()

    @property
    def retry_in(self) -> float:
        """The seconds until a try makes sense, for those who wait in their own way."""
        with self._lock:
            return max(0.0, self._due - self._clock()) if self.state is State.OPEN else 0.0

    def failed(self, reason: str) -> None:
        """Note a failure."""
        with self._lock:
            self._attempts += 1
            if self.state is State.CLOSED:
                self._opened_at = self._clock()
                log.warning("%s is away: %s Trying again until it is back", self.name, _sentence(reason))
            self.state = State.OPEN
            self._due = self._clock() + self._backoff.failed()

    def succeeded(self) -> None:
        """Note that it answers."""
        with self._lock:
            if self.state is not State.CLOSED:
                away = self._clock() - self._opened_at
                log.info("%s is back after %.1f s and %d attempts", self.name, away, self._attempts)
            self.state = State.CLOSED
            self._attempts = 0
            self._backoff.succeeded()

    def _until_turn(self) -> float:
        with self._lock:
            if self.state is State.CLOSED:
                return 0.0
            now = self._clock()
            if now < self._due:
                return self._due - now
            self.state = State.HALF_OPEN
            self._due = now + _TRIAL_SECONDS
            return 0.0


def _sentence(reason: str) -> str:
    text = " ".join(reason.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."
