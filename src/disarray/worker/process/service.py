"""The parts of one process that run side by side: started together, ended together, in an order that loses nothing."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

_SIGNAL_SECONDS = 0.5


class Service(Protocol):
    """Something that runs in the background: the scheduler, the consumer, an agent, a REST server."""

    def start(self) -> None:
        """Begin; returns at once, or raises what speaks against it."""
        ...

    def stop(self) -> None:
        """End in good order; returns when it has ended."""
        ...


class ThreadService:
    """Runs a function in a thread of its own until it is told to stop.

    When the function fails, `ended` is set and the process comes down with it: half a worker would look alive and
    do nothing. `hurry` is called when it has not ended `grace_seconds` after it was told to, again every second.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[threading.Event], None],
        *,
        ended: threading.Event,
        wake: Callable[[], None] = lambda: None,
        hurry: Callable[[], None] = lambda: None,
        grace_seconds: float | None = None,
    ) -> None:
        self.failure: BaseException | None = None
        self._run = run
        self._ended = ended
        self._wake = wake
        self._hurry = hurry
        self._grace_seconds = grace_seconds
        self._stopping = threading.Event()
        # A daemon: a second signal must not have to wait for it.
        self._thread = threading.Thread(target=self._body, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask, wait, and after a while press."""
        self._stopping.set()
        self._wake()
        self._thread.join(self._grace_seconds)
        while self._thread.is_alive():
            try:
                self._hurry()
            except Exception as error:  # an engine that is gone cannot be hurried
                log.debug("%s", error)
            self._thread.join(1.0)

    def _body(self) -> None:
        try:
            self._run(self._stopping)
        except BaseException as error:
            self.failure = error
        finally:
            self._ended.set()


def run_services(services: Mapping[str, Service], stop: threading.Event) -> None:
    """Start all in order, and end them in the opposite one when `stop` is set, which a failing one does as well.

    The first failure is raised once all have ended.
    """
    started: list[str] = []
    try:
        for name, service in services.items():
            service.start()
            started.append(name)
        # Not without end: a signal may be taken by another thread, and its handler runs when this one wakes up.
        while not stop.wait(_SIGNAL_SECONDS):
            pass
    finally:
        for name in reversed(started):
            log.debug("ending %s", name)
            services[name].stop()
    failures = [getattr(service, "failure", None) for service in services.values()]
    if first := next((failure for failure in failures if failure is not None), None):
        raise first
