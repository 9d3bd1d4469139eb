"""Readings on their way from one store to another, subject by subject, each under its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control import readings
from disarray.failpoints import failpoint
from disarray.worker.process.scheduler import Scheduler

if TYPE_CHECKING:
    from disarray.control.readings import WaitingCopy
    from disarray.worker.workplace import Workplace


def drain_copies(
    workplace: Workplace, dataset: str, *, subject_key: str | None = None
) -> tuple[list[WaitingCopy], list[str]]:
    """Queue what is not where the store of the dataset says, and process it; what remains, and what failed.

    A large subject is copied in several turns. What was done stays done: run again, this goes on where it ended.
    """
    failures: list[str] = []
    while True:
        with workplace.pool.connection() as connection:
            readings.queue_copies(
                connection, dataset, by=workplace.holder.instance_name, subject_key=subject_key
            )
            before = readings.list_copies(connection, dataset)
            failpoint("copy.queued", connection)
        for report in Scheduler(workplace).drain():
            failures += report.failed.values()
        with workplace.pool.connection() as connection:
            after = readings.list_copies(connection, dataset)
        is_done = not any(subject_key in (None, each.subject_key) for each in after)
        if failures or is_done or after == before:
            return after, failures
