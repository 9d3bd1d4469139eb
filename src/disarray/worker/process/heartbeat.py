"""Leases of a pass under way, renewed as long as it gets on."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.control import claim_ends
from disarray.errors import ControlError
from disarray.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disarray.control.connections import Pool
    from disarray.control.queue import Holder

log = logging.getLogger(__name__)


@dataclass
class Progress:
    """When a pass last got a step further. A pass that hangs must lose its leases, however alive its process is."""

    stalled_after_seconds: float = 900
    # Differs when a task of the job under way has ended: one job over hours of files is many small steps.
    pulse: Callable[[], object] = lambda: None
    _advanced_at: float = field(default_factory=time.monotonic)
    _last_pulse: object = None

    def advance(self) -> None:
        """Say that a step was made."""
        self._advanced_at = time.monotonic()

    def has_stalled(self) -> bool:
        """Feel the pulse; whether nothing has happened for too long."""
        with suppress(Exception):  # an engine that does not answer does not get on
            pulse = self.pulse()
            if pulse != self._last_pulse:
                self._last_pulse = pulse
                self.advance()
        return time.monotonic() - self._advanced_at > self.stalled_after_seconds


@contextmanager
def renewed_leases(
    pool: Pool, subject_keys: Sequence[str], holder: Holder, *, lease_seconds: int, progress: Progress
) -> Iterator[None]:
    """Renew the leases of these subjects until the block ends or the pass stalls."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(lease_seconds / 3):
            if progress.has_stalled():
                log.error("no progress for %.0f s: the leases are given up", progress.stalled_after_seconds)
                return
            try:
                with pool.connection() as connection:
                    failpoint("lease.before_renewal", connection)
                    claim_ends.renew_subjects(connection, subject_keys, holder, lease_seconds=lease_seconds)
            except ControlError as error:
                # The lease says how long this may go on; the commit will find out whether it was too long.
                log.warning("the leases could not be renewed: %s", error)

    thread = threading.Thread(target=beat, name="lease-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
