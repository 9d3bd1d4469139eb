"""Jobs served by a process: in the foreground one job by several threads, in a worker all jobs by one."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.backfill.chunk_worker import ChunkWorker
from disarray.backfill.job_session import open_job
from disarray.control import backfills
from disarray.control.connections import connect
from disarray.errors import DatabaseBusyError, DatabaseUnavailableError, DisarrayError, StaleIncarnationError
from disarray.model.breaker import Breaker

if TYPE_CHECKING:
    from disarray.control.backfills import ActiveBackfill
    from disarray.control.queue import Holder

log = logging.getLogger(__name__)

_IDLE_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobServer:
    """Works on jobs in the name of one instance; `functions` are those that jobs of others may call, None: any."""

    dsn: str
    holder: Holder
    lease_seconds: int
    functions: frozenset[str] | None = None
    breaker: Breaker = field(
        default_factory=lambda: Breaker("the database of the backfill", DatabaseUnavailableError)
    )

    def run_job(self, job_id: int, stop: threading.Event, *, threads: int) -> None:
        """Work on one job until it has ended, is paused or stopped, or `stop` is set; the first failure is raised."""
        failures: list[BaseException] = []

        def work() -> None:
            try:
                self._work_on(job_id, stop)
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

    def serve(self, stop: threading.Event) -> None:
        """Work on every job that runs, one chunk of each in turn, until told to stop."""
        while self.breaker.await_turn(stop):
            try:
                with self.breaker.guard():
                    did_something = self._serve_all(stop)
            except (DatabaseUnavailableError, DatabaseBusyError):
                continue
            except StaleIncarnationError:
                raise
            except DisarrayError as error:
                log.warning("a backfill could not go on: %s", error)
                did_something = False
            if not did_something:
                stop.wait(_IDLE_SECONDS)

    def _serve_all(self, stop: threading.Event) -> bool:
        with connect(
            self.dsn, application_name=f"disarray {self.holder.instance_name} backfills"
        ) as connection:
            jobs = [job for job in backfills.list_active_backfills(connection) if self._may_serve(job)]
        chunks = 0
        for job in jobs:
            if not stop.is_set():
                chunks += self._work_on(job.job_id, stop, is_alone=len(jobs) == 1)
        return chunks > 0

    def _may_serve(self, job: ActiveBackfill) -> bool:
        function = job.description["update"]["function"]
        return function is None or self.functions is None or function in self.functions

    def _work_on(self, job_id: int, stop: threading.Event, *, is_alone: bool = True) -> int:
        """Work on a job; where it is not alone, until it has to wait for the first time. How many steps it took."""
        steps = 0
        while self.breaker.await_turn(stop):
            try:
                with self.breaker.guard(), ExitStack() as stack:
                    worker = self._open(job_id, stack)
                    if worker is None:
                        return steps
                    while not stop.is_set():
                        step = worker.step()
                        steps += step.wait_seconds == 0 and step.goes_on
                        if not step.goes_on or (step.wait_seconds and not is_alone):
                            return steps
                        if step.wait_seconds:
                            stop.wait(min(step.wait_seconds, _LONGEST_WAIT_SECONDS))
            except DatabaseUnavailableError:
                continue  # the breaker has said so
            except DatabaseBusyError as error:
                log.info("backfill job %d is tried again: %s", job_id, error)
                stop.wait(_IDLE_SECONDS)
        return steps

    def _open(self, job_id: int, stack: ExitStack) -> ChunkWorker | None:
        with connect(
            self.dsn, application_name=f"disarray {self.holder.instance_name} backfills"
        ) as connection:
            jobs = [job for job in backfills.list_active_backfills(connection) if job.job_id == job_id]
        if not jobs:
            return None
        [job] = jobs
        session = stack.enter_context(
            open_job(
                self.dsn,
                job_id,
                job_key=job.job_key,
                kind=job.kind,
                description=job.description,
                lease_seconds=self.lease_seconds,
            )
        )
        return ChunkWorker(session, self.holder, lease_seconds=self.lease_seconds)
