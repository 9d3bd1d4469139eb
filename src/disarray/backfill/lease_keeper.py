"""Leases kept while somebody works on what they cover, by a thread and a connection of its own."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from disarray.control.connections import SessionLimits, connect
from disarray.control.lease_renewal import RENEWALS_IN_A_LEASE
from disarray.errors import ControlError, LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.control.connections import Connection

    Renew = Callable[[Connection], None]

log = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews the lease of what one thread holds; whatever is over sooner than that costs nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._renew: Renew | None = None

    @contextmanager
    def keeping(self, renew: Renew) -> Iterator[None]:
        """Renew a lease again and again until the work is over.

        A process that freezes renews nothing. Lost or unreachable, the end of the work finds out.
        """
        self._renew = renew
        try:
            yield
        finally:
            # Not while it is being renewed: what is over is given to nobody else meanwhile.
            with self._lock:
                self._renew = None

    def run(self, dsn: str, is_over: threading.Event, *, lease_seconds: int) -> None:
        """Renew what is held, every third of a lease, until it is over."""
        pause = lease_seconds / RENEWALS_IN_A_LEASE
        limits = SessionLimits.for_lease(lease_seconds)
        while not is_over.wait(pause):
            try:
                with ExitStack() as stack:
                    connection: Connection | None = None
                    while not is_over.is_set():
                        if self._renew is not None and connection is None:
                            connection = stack.enter_context(
                                connect(dsn, limits=limits, application_name="disarray backfill lease")
                            )
                        if connection is not None:
                            self._renew_on(connection)
                        is_over.wait(pause)
            except ControlError as error:
                log.warning("a lease could not be renewed, and is tried again: %s", error)

    def _renew_on(self, connection: Connection) -> None:
        with self._lock:
            try:
                if self._renew is not None:
                    self._renew(connection)
            except LeaseLostError as error:
                log.warning("%s", error)
                self._renew = None


@contextmanager
def open_keeper(dsn: str, *, lease_seconds: int) -> Iterator[LeaseKeeper]:
    """A keeper whose thread ends with the block."""
    keeper, is_over = LeaseKeeper(), threading.Event()
    thread = threading.Thread(
        target=keeper.run,
        args=(dsn, is_over),
        kwargs={"lease_seconds": lease_seconds},
        name="backfill leases",
        daemon=True,
    )
    thread.start()
    try:
        yield keeper
    finally:
        is_over.set()
        thread.join()
