"""The loop of a worker: claim, process, claim again."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.control import queue
from disarray.control.queue import FetchPolicy
from disarray.errors import ControlError, DatabaseBusyError, DatabaseUnavailableError, StalePlanError
from disarray.worker.heartbeat import Progress, renewed_leases
from disarray.worker.ingest import PassReport, joined, process_items

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.control.queue import QueueItem
    from disarray.worker.work import Workplace

log = logging.getLogger(__name__)

BATCH = FetchPolicy(limit=500, max_subjects=64)


@dataclass(frozen=True)
class Scheduler:
    """Claims batches and processes them, one after the other."""

    place: Workplace
    policy: FetchPolicy = BATCH
    stopping: threading.Event = field(default_factory=threading.Event)
    idle_seconds: float = 0.5

    def drain(self) -> Iterator[PassReport]:
        """Process batches until nothing is left to claim."""
        while not self.stopping.is_set() and (report := self.process_batch()) is not None:
            yield report

    def run(self) -> None:
        """Process batches until told to stop; a database that is away is waited for."""
        while not self.stopping.is_set():
            try:
                if self.process_batch() is None:
                    self.stopping.wait(self.idle_seconds)
            except (DatabaseUnavailableError, DatabaseBusyError) as error:
                log.warning("%s", error)
                self.stopping.wait(5)

    def process_batch(self) -> PassReport | None:
        """Claim one batch and process it; None where there was nothing to claim."""
        items = self._claim()
        if not items:
            return None
        progress = Progress()
        with renewed_leases(
            self.place.pool,
            sorted({item.subject_key for item in items}),
            self.place.holder,
            lease_seconds=self.policy.lease_seconds,
            progress=progress,
        ):
            return self._process(items, progress)

    def _process(self, items: Sequence[QueueItem], progress: Progress) -> PassReport:
        try:
            return process_items(self.place, items, on_step=progress.advance)
        except StalePlanError as error:
            # Somebody decided about a parked file meanwhile: claimed again, it is planned again.
            log.info("%s", error)
            self._hand_back(items)
            return PassReport(lost_subjects=tuple(sorted({item.subject_key for item in items})))
        except ControlError:
            self._hand_back(items)
            raise
        except Exception as error:
            log.exception("a pass over %d items failed", len(items))
            if len(items) > 1:
                # One of them may be to blame: alone, it fails alone.
                return joined([self._process([item], progress) for item in items])
            [item] = items
            message = f"{type(error).__name__}: {error}"
            with self.place.pool.connection() as connection:
                queue.fail_item(connection, item.queue_id, self.place.holder, error_message=message)
            return PassReport(failed={item.queue_id: message})

    def _claim(self) -> list[QueueItem]:
        with self.place.pool.connection() as connection:
            # A claim whose reply was lost is held by nobody who knows of it.
            queue.return_unknown_claims(connection, [], self.place.holder)
            return queue.fetch_items(connection, self.place.holder, self.policy)

    def _hand_back(self, items: Sequence[QueueItem]) -> None:
        """Free what a failed pass held, so that nobody has to wait for the leases."""
        for subject in sorted({item.subject_key for item in items}):
            try:
                with self.place.pool.connection() as connection:
                    queue.release_subject(connection, subject, self.place.holder)
            except ControlError as error:
                log.warning("%s", error)
