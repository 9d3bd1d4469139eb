"""A lease kept while somebody works on what it covers, by a thread and a connection of its own."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from disarray.control.connections import SessionLimits, connect
from disarray.errors import ControlError, LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.control.connections import Connection

log = logging.getLogger(__name__)

# Two renewals may fail before the lease ends.
_RENEWALS_IN_A_LEASE = 3


@contextmanager
def kept_lease(dsn: str, renew: Callable[[Connection], None], *, lease_seconds: int) -> Iterator[None]:
    """Renew a lease again and again until the work is over; work that is over sooner costs no connection.

    A process that freezes renews nothing. Lost or unreachable, the end of the work finds out.
    """
    is_over = threading.Event()

    def keep() -> None:
        pause = lease_seconds / _RENEWALS_IN_A_LEASE
        while not is_over.wait(pause):
            try:
                with connect(
                    dsn,
                    limits=SessionLimits.for_lease(lease_seconds),
                    application_name="disarray backfill lease",
                ) as connection:
                    renew(connection)
                    while not is_over.wait(pause):
                        renew(connection)
            except LeaseLostError as error:
                log.warning("%s", error)
                return
            except ControlError as error:
                log.warning("a lease could not be renewed, and is tried again: %s", error)

    thread = threading.Thread(target=keep, name="backfill lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
