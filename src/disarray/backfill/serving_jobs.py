"""Jobs served by a process: in the foreground one job by several threads, in a worker all jobs by one.

A job has a breaker of its own: while its database is away, no other job waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.backfill.chunk_worker import ChunkWorker
from disarray.backfill.job_session import open_in_database, open_job
from disarray.control import backfills
from disarray.control.connections import connect
from disarray.errors import (
    BackfillTargetError,
    ControlError,
    DatabaseBusyError,
    DatabaseUnavailableError,
    DisarrayError,
    StaleIncarnationError,
)
from disarray.model.breaker import Breaker

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.backfill.job_session import JobSession
    from disarray.backfill.kind import KindOpener
    from disarray.control.backfills import ActiveBackfill
    from disarray.control.connections import Connection
    from disarray.control.queue import Holder

log = logging.getLogger(__name__)

_IDLE_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 1.0
_PUT_OFF_SECONDS = 60.0
# A turn of a job while others wait. Every turn opens the job anew, which is to be little beside it.
_TURN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobServer:
    """Works on jobs in the name of one instance; `functions` are those that jobs of others may call, None: any."""

    dsn: str
    holder: Holder
    lease_seconds: int
    functions: frozenset[str] | None = None
    open_kind: KindOpener = open_in_database

    def run_job(self, job_id: int, stop: threading.Event, *, threads: int) -> None:
        """Work on one job until it has ended, is paused or stopped, or `stop` is set; the first failure is raised."""
        failures: list[BaseException] = []
        breaker = _breaker_of(job_id)

        def work() -> None:
            try:
                self._work_to_the_end(job_id, stop, breaker)
            except BaseException as error:
                failures.append(error)
                stop.set()

        workers = [
            threading.Thread(target=work, name=f"backfill-{number}", daemon=True) for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if failures:
            raise failures[0]

    def serve(self, stop: threading.Event, *, control_breaker: Breaker) -> None:
        """Work on every job that runs, in turns of about a second where there are several, until told to stop.

        `control_breaker` is that of the database of disarray: the database of one job may be away without the others'.
        A chunk, and a verification, is not broken off: a turn may be longer by one of them.
        """
        put_off: dict[int, float] = {}
        breakers: dict[int, Breaker] = {}

        def may_go_on(job: ActiveBackfill) -> bool:
            is_away = job.job_id in breakers and breakers[job.job_id].retry_in > 0
            return not is_away and put_off.get(job.job_id, 0.0) <= time.monotonic()

        def others_of(job_id: int) -> Callable[[Connection], bool]:
            return lambda connection: any(
                job.job_id != job_id and self._may_serve(job) and may_go_on(job)
                for job in backfills.list_active_backfills(connection)
            )

        while control_breaker.await_turn(stop):
            steps = 0
            try:
                with control_breaker.guard():
                    jobs = [job.job_id for job in self._jobs() if may_go_on(job)]
            except (DatabaseUnavailableError, DatabaseBusyError):
                continue
            for job_id in jobs:
                breaker = breakers.setdefault(job_id, _breaker_of(job_id))
                if stop.is_set() or not breaker.take_turn():
                    continue
                try:
                    with breaker.guard():
                        steps += self._work_on(job_id, stop, has_others=others_of(job_id))
                except StaleIncarnationError:
                    raise
                except DatabaseUnavailableError as error:
                    self._note_outage(job_id, error)
                except DatabaseBusyError as error:
                    log.info("backfill job %d is tried again: %s", job_id, error)
                except DisarrayError as error:
                    # One job holds up no other; what this worker lacks may be there on another.
                    log.warning("backfill job %d cannot go on here: %s", job_id, error)
                    put_off[job_id] = time.monotonic() + _PUT_OFF_SECONDS
                except Exception:
                    # A module of the user that cannot be loaded, a description of another release: the worker lives on.
                    log.exception("backfill job %d cannot go on here", job_id)
                    put_off[job_id] = time.monotonic() + _PUT_OFF_SECONDS
            if not steps:
                stop.wait(_IDLE_SECONDS)

    def _jobs(self) -> list[ActiveBackfill]:
        with connect(
            self.dsn, application_name=f"disarray {self.holder.instance_name} backfills"
        ) as connection:
            return [job for job in backfills.list_active_backfills(connection) if self._may_serve(job)]

    def _may_serve(self, job: ActiveBackfill) -> bool:
        function = job.description.get("update", {}).get("function")
        return function is None or self.functions is None or function in self.functions

    def _work_to_the_end(self, job_id: int, stop: threading.Event, breaker: Breaker) -> None:
        while breaker.await_turn(stop):
            try:
                with breaker.guard():
                    self._work_on(job_id, stop, has_others=lambda _connection: False)
                    return
            except DatabaseUnavailableError as error:
                self._note_outage(job_id, error)
            except DatabaseBusyError as error:
                log.info("backfill job %d is tried again: %s", job_id, error)
                stop.wait(_IDLE_SECONDS)

    def _work_on(
        self, job_id: int, stop: threading.Event, *, has_others: Callable[[Connection], bool]
    ) -> int:
        """Work on a job until it has ended; where others wait, for a turn, or until it has to wait itself.

        How many steps it took. Others may begin at any time: they are looked for once a turn.
        """
        steps = 0
        with ExitStack() as stack:
            session = self._open(job_id, stack)
            if session is None:
                return steps
            worker = ChunkWorker(session, self.holder, lease_seconds=self.lease_seconds)
            is_alone = not has_others(session.control)
            turn_ends_at = time.monotonic() + _TURN_SECONDS
            while not stop.is_set():
                step = worker.step()
                steps += step.wait_seconds == 0 and step.goes_on
                if not step.goes_on or (step.wait_seconds and not is_alone):
                    return steps
                if step.wait_seconds:
                    stop.wait(min(step.wait_seconds, _LONGEST_WAIT_SECONDS))
                if time.monotonic() >= turn_ends_at:
                    if has_others(session.control):
                        return steps
                    is_alone, turn_ends_at = True, time.monotonic() + _TURN_SECONDS
        return steps

    def _note_outage(self, job_id: int, error: DatabaseUnavailableError) -> None:
        """Tell whoever looks at the job why it stands still; the next claim clears it."""
        # Where it is our own that is away, nobody looks.
        with suppress(ControlError), connect(self.dsn) as connection:
            backfills.note_backfill_hold(connection, job_id, "database", str(error))

    def _open(self, job_id: int, stack: ExitStack) -> JobSession | None:
        jobs = [job for job in self._jobs() if job.job_id == job_id]
        if not jobs:
            return None
        [job] = jobs
        opened = open_job(
            self.dsn,
            job_id,
            job_key=job.job_key,
            kind=job.kind,
            description=job.description,
            lease_seconds=self.lease_seconds,
            open_kind=self.open_kind,
        )
        try:
            return stack.enter_context(opened)
        except BackfillTargetError as error:
            with connect(self.dsn) as connection:
                backfills.stop_backfill(connection, job_id, str(error))
            return None


def _breaker_of(job_id: int) -> Breaker:
    return Breaker(f"the database of backfill job {job_id}", DatabaseUnavailableError)
