"""The loop of a worker: claim, process, claim again."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from disarray.control import claim_ends, claims
from disarray.control.claim_ends import Failure
from disarray.control.claims import FetchPolicy
from disarray.control.queue import Lane
from disarray.errors import (
    AccessDeniedError,
    ControlError,
    DatabaseBusyError,
    DatabaseUnavailableError,
    EngineLostError,
    FragmentWriteError,
    HandedBackError,
    LeaseLostError,
    SchemaMissingError,
    StaleIncarnationError,
    StalePlanError,
    SupersededDefinitionError,
    TimeLimitError,
)
from disarray.failpoints import failpoint
from disarray.model.backoff import Backoff
from disarray.model.breaker import Breaker
from disarray.worker.passes.ingest import process_items
from disarray.worker.passes.item_outcomes import LAKE_SECONDS
from disarray.worker.passes.progress_lines import log_pass
from disarray.worker.passes.report import PassReport, joined
from disarray.worker.process.heartbeat import Progress, renewed_leases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disarray.control.queue import QueueItem
    from disarray.worker.workplace import Workplace

log = logging.getLogger(__name__)

BATCH = FetchPolicy(limit=500, max_subjects=64)
# Nothing that a single item could be to blame for: trying its neighbours alone would help nobody.
_NOT_OF_AN_ITEM = (
    AccessDeniedError,
    DatabaseBusyError,
    DatabaseUnavailableError,
    EngineLostError,
    HandedBackError,
    SchemaMissingError,
    StaleIncarnationError,
    SupersededDefinitionError,
)
_KEEP_WARM_SECONDS = 30.0
_BUSY_SECONDS = 30.0
# Files that are small on average cost a pass more than reading them does, and each pass scans their segment again:
# after a full batch of them, the next one takes so many times more.
_SMALL_BYTES = 64 << 10
_MORE_SMALL_FILES = 10


def database_breaker() -> Breaker:
    """What all threads of a worker share that need the database."""
    return Breaker("the database", DatabaseUnavailableError, backoff=Backoff(longest_s=10.0))


@dataclass(frozen=True)
class Scheduler:
    """Claims batches and processes them, one after the other."""

    workplace: Workplace
    policy: FetchPolicy = BATCH
    stopping: threading.Event = field(default_factory=threading.Event)
    idle_seconds: float = 0.5
    breaker: Breaker = field(default_factory=database_breaker)
    followers: list[Callable[[], None]] = field(default_factory=list)  # told after a pass that committed
    _awake: threading.Event = field(default_factory=threading.Event)
    _hurried: threading.Event = field(default_factory=threading.Event)
    _held: set[str] = field(default_factory=set)
    _takes_more: threading.Event = field(default_factory=threading.Event)
    # Subjects whose last pass the server broke off for taking too long.
    _broken_off: set[str] = field(default_factory=set)
    # When there was live work last.
    _live_at: list[float] = field(default_factory=lambda: [-math.inf])

    def drain(self) -> Iterator[PassReport]:
        """Process batches until nothing is left to claim."""
        while not self.stopping.is_set() and (report := self.process_batch()) is not None:
            yield report

    def run(self, stop: threading.Event) -> None:
        """Process batches until told to stop, then free what is held; a database that is away is waited for."""
        warm_until = time.monotonic()  # nothing is yet: the first idle moment goes into it
        while self.breaker.await_turn(stop):
            self._awake.clear()
            began = time.monotonic()
            try:
                report = self.process_batch()
            except HandedBackError:
                log.info("the pass was broken off; what of it is not committed went back to the queue")
                break
            except DatabaseUnavailableError:
                continue  # the breaker has said so
            except DatabaseBusyError as error:
                log.warning("%s", error)
                stop.wait(random.uniform(0.5, 2.0))  # noqa: S311 - two that met must not meet again
                continue
            if report is not None:
                log_pass(report, time.monotonic() - began)
            elif time.monotonic() > warm_until:
                self.workplace.runner.keep_warm()
            else:
                self._awake.wait(self.idle_seconds)
                continue
            warm_until = time.monotonic() + _KEEP_WARM_SECONDS
        self.release_held()

    def wake(self) -> None:
        """Say that there may be something to claim, or to stop for."""
        self._awake.set()

    def hurry(self) -> None:
        """Break off the pass under way: what is not committed is handed back."""
        self._hurried.set()
        self.wake()
        self.workplace.runner.cancel()

    def process_batch(self) -> PassReport | None:
        """Claim one batch and process it; None where there was nothing to claim."""
        with self.breaker.guard():
            items = self._claim()
        if not items:
            # A claim that finds nothing leaves what was held.
            self._held.clear()
            return None
        if len(items) >= self.policy.limit and _are_small(items):
            self._takes_more.set()
        else:
            self._takes_more.clear()
        subjects = sorted({item.subject_key for item in items})
        self._held.update(subjects)
        progress = Progress(pulse=self.workplace.runner.pulse)
        with (
            self.breaker.guard(),
            renewed_leases(
                self.workplace.pool,
                subjects,
                self.workplace.holder,
                lease_seconds=self.policy.lease_seconds,
                progress=progress,
            ),
        ):
            report = self._process(items, progress)
        if report.committed:
            for tell in self.followers:
                tell()
        return report

    def release_held(self) -> None:
        """Free every subject that is held, so that nobody has to wait for the leases."""
        self._release(sorted(self._held))
        self._held.clear()

    def _process(self, items: Sequence[QueueItem], progress: Progress) -> PassReport:
        finished: list[PassReport] = []
        subjects = {item.subject_key for item in items}
        try:
            report = process_items(
                self.workplace,
                items,
                on_step=lambda: self._step(progress),
                finished=finished,
                is_busy=self._is_busy(items),
            )
        except StalePlanError as error:
            # Somebody decided about a parked file meanwhile: claimed again, it is planned again.
            log.info("%s", error)
            return self._given_back(items, finished)
        except TimeLimitError as error:
            # Once may be the moment: a slow disk, a host under load. The second time it is the work.
            if not subjects & self._broken_off:
                log.warning("a pass over %d items took too long: %s", len(items), error)
                self._broken_off.update(subjects)
                return self._given_back(items, finished)
            return self._try_smaller(items, finished, progress, error)
        except _NOT_OF_AN_ITEM:
            self._hand_back(items)
            raise
        except Exception as error:
            if self._hurried.is_set():
                self._hand_back(items)
                # Whatever the engine says about a job that was broken off.
                raise HandedBackError("the job was broken off: the worker ends") from error
            return self._try_smaller(items, finished, progress, error)
        self._broken_off.difference_update(subjects)
        if report.given_back:
            self._give_way(report.given_back)
        return report

    def _given_back(self, items: Sequence[QueueItem], finished: Sequence[PassReport]) -> PassReport:
        """Free what was claimed: it is claimed again, and goes on with what is not done."""
        self._hand_back(items)
        lost = PassReport(lost_subjects=tuple(sorted({item.subject_key for item in items})))
        return joined([*finished, lost])

    def _try_smaller(
        self, items: Sequence[QueueItem], finished: Sequence[PassReport], progress: Progress, error: Exception
    ) -> PassReport:
        """After an error that one of the items may be to blame for: alone, it fails alone.

        Work that took too long is halved instead: half of it may do, and a thousand passes would take longer still.
        """
        ended = {queue_id for report in finished for queue_id in (*report.completed, *report.failed)}
        left = [item for item in items if item.queue_id not in ended]
        log.error("a pass over %d items failed", len(left), exc_info=error)
        if len(left) > 1:
            size = (len(left) + 1) // 2 if isinstance(error, TimeLimitError) else 1
            parts = [left[start : start + size] for start in range(0, len(left), size)]
            return joined([*finished, *(self._process(part, progress) for part in parts)])
        return joined([*finished, *(self._fail(item, error) for item in left)])

    def _fail(self, item: QueueItem, error: Exception) -> PassReport:
        message = f"{type(error).__name__}: {error}"
        # Where the lake has no room for the rows of a table, no item is to blame.
        waits = isinstance(error, FragmentWriteError)
        try:
            with self.workplace.pool.connection() as connection:
                failpoint("fail.before", connection, about=item.source_uri or item.subject_key)
                claim_ends.fail_items(
                    connection,
                    [Failure(item.queue_id, message)],
                    self.workplace.holder,
                    retry_delay_seconds=LAKE_SECONDS if waits else None,
                    is_counted=not waits,
                )
                failpoint("fail.after", connection, about=item.source_uri or item.subject_key)
        except LeaseLostError:
            return PassReport(lost_subjects=(item.subject_key,))
        return PassReport(failed={item.queue_id: message})

    def _step(self, progress: Progress) -> None:
        progress.advance()
        if self._hurried.is_set():
            raise HandedBackError("the next step was not begun: the worker ends")

    def _claim(self) -> list[QueueItem]:
        with self.workplace.pool.connection() as connection:
            failpoint("claim.before", connection)
            try:
                # A claim whose reply was lost is held by nobody who knows of it.
                claim_ends.return_unknown_claims(connection, [], self.workplace.holder)
            except StaleIncarnationError:
                raise
            except LeaseLostError as error:
                # The database was away for longer than the lease: the claim below frees what ran out.
                log.info("%s", error)
            more = _MORE_SMALL_FILES if self._takes_more.is_set() else 1
            policy = replace(self.policy, limit=self.policy.limit * more)
            items = claims.fetch_items(connection, self.workplace.holder, policy)
            if items:
                failpoint("claim.after", connection)
            return items

    def _is_busy(self, items: Sequence[QueueItem]) -> bool:
        """Whether live work comes, or came lately: then more of it may come while backfill is under way."""
        now = time.monotonic()
        if any(item.lane is Lane.LIVE for item in items):
            self._live_at[0] = now
        return now - self._live_at[0] < _BUSY_SECONDS

    def _give_way(self, subjects: Sequence[str]) -> None:
        """Free subjects of the backfill lane; at once, for live work waits for it."""
        try:
            with self.workplace.pool.connection() as connection:
                claim_ends.release_subjects(connection, subjects, self.workplace.holder)
        except LeaseLostError:
            self._release(subjects)

    def _hand_back(self, items: Sequence[QueueItem]) -> None:
        """Free what a failed pass held, so that nobody has to wait for the leases."""
        self._release(sorted({item.subject_key for item in items}))

    def _release(self, subjects: Sequence[str]) -> None:
        for subject in subjects:
            try:
                with self.workplace.pool.connection() as connection:
                    failpoint("release.before", connection, about=subject)
                    claim_ends.release_subject(connection, subject, self.workplace.holder)
                    failpoint("release.after", connection, about=subject)
            except LeaseLostError as error:
                log.debug("%s", error)
            except DatabaseUnavailableError as error:
                # Each further subject would wait for the database just as long.
                log.warning(
                    "%d subjects could not be freed, their leases will run out: %s", len(subjects), error
                )
                return
            except ControlError as error:
                log.warning("%s", error)


def _are_small(items: Sequence[QueueItem]) -> bool:
    """Whether all files say how large they are, as those from an agent do, and that is little on average."""
    sizes = [item.metadata.get("size") for item in items]
    known = [size for size in sizes if isinstance(size, int)]
    return len(known) == len(items) and sum(known) < _SMALL_BYTES * len(items)
