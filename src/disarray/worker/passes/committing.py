"""The end of a pass: one transaction for each subject, and how it ended where nobody heard."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from disarray.control import commits, dirty_ranges
from disarray.control.connections import transaction
from disarray.control.retries import call_idempotent
from disarray.control.timings import TIMINGS
from disarray.errors import DatabaseUnavailableError
from disarray.failpoints import failpoint
from disarray.worker.passes.commit_contents import conflicts_with, subject_commit
from disarray.worker.passes.report import CommittedPlan
from disarray.worker.passes.rows import put_parts, write_rows
from disarray.worker.passes.work_order import ReconcileSubject

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from disarray.worker.passes.subject_pass import SubjectPass
    from disarray.worker.workplace import Workplace

log = logging.getLogger(__name__)


def commit_work(
    workplace: Workplace,
    subject: SubjectPass,
    *,
    run_id: UUID,
    on_step: Callable[[], None] = lambda: None,
) -> list[CommittedPlan]:
    """Make all that was found out about one subject visible, and end its items; what that changed, by plan.

    Whatever Python has to prepare is prepared before the transaction begins: while it is open it holds the subject, and
    the server ends one that idles.
    """
    with workplace.pool.connection() as connection:
        commit = subject_commit(connection, workplace, subject, run_id=run_id)
        prepared = commits.prepare_commit(commit)
        failpoint("commit.before_begin", connection, about=commit.subject_key)
    try:
        with (
            workplace.pool.connection() as connection,
            TIMINGS.timed("commit"),
            transaction(connection),
        ):
            failpoint("commit.begun", connection, about=commit.subject_key)
            # In one order everywhere, so that commits which bring the same new dimension values never deadlock.
            for plan in sorted(subject.plans, key=lambda each: each.dataset):
                write_rows(connection, workplace, plan, scanned=subject.scanned, fence=commit.fence)
            changes = commits.commit_subject(
                connection, prepared, workplace.holder, max_shift_rows=workplace.max_shift_rows
            )
            if commit.rows_follow:
                for plan, change in zip(subject.plans, changes, strict=True):
                    put_parts(
                        connection,
                        commit,
                        plan,
                        changed_segments=change.changed_segments or (),
                        scanned=subject.scanned,
                        on_step=on_step,
                    )
                changes = commits.finish_commit(
                    connection, prepared, changes, max_shift_rows=workplace.max_shift_rows
                )
            failpoint("commit.stated", connection, about=commit.subject_key)
            if any(each.assignment.asks_for(ReconcileSubject) for each in subject.work):
                with TIMINGS.timed("reconcile"):
                    failpoint("reconcile.before", connection, about=commit.subject_key)
                    dirty_ranges.reconcile_subject(connection, commit.subject_key, workplace.holder)
                    failpoint("reconcile.after", connection, about=commit.subject_key)
            failpoint("commit.before_commit", connection, about=commit.subject_key)
        failpoint("commit.after_commit", about=commit.subject_key)
        return [
            CommittedPlan(plan, change, conflicts_with(plan, subject.scanned))
            for plan, change in zip(subject.plans, changes, strict=True)
        ]
    except DatabaseUnavailableError:
        # The reply was lost, not necessarily the commit. Doing it again could do it twice: ask by run id.
        failpoint("commit.settling", about=commit.subject_key)
        if not call_idempotent(
            workplace.pool, lambda connection: commits.is_committed(connection, run_id, commit.subject_key)
        ):
            raise
        log.info("the reply to the commit of %s was lost, and it took effect", commit.subject_key)
        return []
