"""Leases renewed while their holder works; a process that freezes renews nothing."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from disarray.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.control.connections import Connection, Pool

log = logging.getLogger(__name__)

# Two renewals may fail before the lease ends.
RENEWALS_IN_A_LEASE = 3


@contextmanager
def renewed(
    pool: Pool, renew: Callable[[Connection], object], *, about: str, lease_seconds: float
) -> Iterator[None]:
    """Renew what is held while the block runs, however long that takes.

    Lost or unreachable, the end of the work finds out.
    """
    is_over = threading.Event()

    def keep_on() -> None:
        while not is_over.wait(lease_seconds / RENEWALS_IN_A_LEASE):
            try:
                with pool.connection() as connection:
                    renew(connection)
            except ControlError as error:
                log.warning("the lease of %s could not be renewed: %s", about, error)

    thread = threading.Thread(target=keep_on, name=f"lease of {about}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
