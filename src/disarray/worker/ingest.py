"""One pass over a claimed batch: read, plan, scan, and one commit for each subject."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from disarray.control import definitions
from disarray.engine.scan_job import scan_segments
from disarray.errors import LeaseLostError
from disarray.failpoints import failpoint
from disarray.worker.assignment import assign
from disarray.worker.committing import commit_work, give_back
from disarray.worker.keeping import keep_subjects
from disarray.worker.planning import plan_subject
from disarray.worker.reading import batch_requests, find_blocked, read_batch
from disarray.worker.rebuilding import (
    BLOCKED_SECONDS,
    blocked_by_failures,
    due_rebuilds,
    in_portions,
    told_blocked,
)
from disarray.worker.report import rejects_of
from disarray.worker.rows import check_copies, scans_of, staging_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from disarray.control.queue import QueueId, QueueItem
    from disarray.model.plan import SubjectPlan
    from disarray.worker.assignment import Assignment
    from disarray.worker.keeping import KeptSubject
    from disarray.worker.rebuilding import Rebuild, SubjectOfDataset
    from disarray.worker.report import CommittedPlan, FileRejects
    from disarray.worker.work import Work, Workplace

log = logging.getLogger(__name__)

# How long what could not be written waits: soon enough after somebody made room, and not so often that files are read
# for nothing all day.
LAKE_SECONDS = 60
# A commit waits for the disk and for the server's one core; a few of them wait together.
COMMITS_AT_A_TIME = 3


@dataclass(frozen=True, slots=True)
class PassReport:
    """What became of a batch: every item is completed, failed with a message, or lost with its subject."""

    completed: tuple[QueueId, ...] = ()
    failed: Mapping[QueueId, str] = field(default_factory=dict)
    lost_subjects: tuple[str, ...] = ()
    plans: tuple[SubjectPlan, ...] = ()
    committed: tuple[CommittedPlan, ...] = ()
    rejects: tuple[FileRejects, ...] = ()
    kept: tuple[KeptSubject, ...] = ()


def joined(reports: Sequence[PassReport]) -> PassReport:
    """The report of several passes as one."""
    return PassReport(
        completed=tuple(queue_id for report in reports for queue_id in report.completed),
        failed={queue_id: text for report in reports for queue_id, text in report.failed.items()},
        lost_subjects=tuple(subject for report in reports for subject in report.lost_subjects),
        plans=tuple(plan for report in reports for plan in report.plans),
        committed=tuple(commit for report in reports for commit in report.committed),
        rejects=tuple(rejects for report in reports for rejects in report.rejects),
        kept=tuple(kept for report in reports for kept in report.kept),
    )


def process_items(place: Workplace, items: Sequence[QueueItem], *, on_step: Callable[[], None]) -> PassReport:
    """Do all that a batch of claimed items asks for; `on_step` hears of every step, so that leases are kept."""
    assignments = assign(items, place.datasets)
    housekeeping = [each.item for each in assignments if each.is_housekeeping]
    others = [each for each in assignments if not each.is_housekeeping]
    with place.pool.connection() as connection:
        definitions.assert_in_force(connection, place.datasets.values())
        rebuilds = due_rebuilds(connection, others)
        if rebuilds:
            failpoint("rebuild.due", connection)
    # Rebuilds of long histories are committed one after the other: what is done stays done.
    report = joined(
        [_process(place, portion, rebuilds, on_step) for portion in in_portions(others, rebuilds)]
    )
    # Planned only now, on what the commits left.
    keeping = keep_subjects(
        place,
        [item for item in housekeeping if item.subject_key not in report.lost_subjects],
        on_step=on_step,
    )
    kept = PassReport(
        completed=keeping.completed,
        failed=keeping.failed,
        lost_subjects=keeping.lost_subjects,
        kept=keeping.kept,
    )
    return joined([report, kept])


def _process(
    place: Workplace,
    assignments: Sequence[Assignment],
    due: Mapping[SubjectOfDataset, Rebuild],
    on_step: Callable[[], None],
) -> PassReport:
    run_id = uuid.uuid4()
    subjects = {each.item.subject_key for each in assignments}
    rebuilds = {rebuild.key: rebuild for rebuild in due.values() if rebuild.subject_key in subjects}
    with place.pool.connection() as connection:
        requests = batch_requests(connection, assignments, rebuilds)
    blocked = find_blocked(place.runner, requests)
    failpoint("read.before")
    batch = read_batch(
        place.runner, assignments, requests.without(blocked, assignments), lake=place.lake, run_id=run_id
    )
    failpoint("read.after")
    on_step()
    failed = {each.item.queue_id: each.failure for each in batch.work if each.failure is not None}
    blocked |= blocked_by_failures(batch.work, rebuilds)
    plans: dict[str, list[SubjectPlan]] = {}
    with place.pool.connection() as connection:
        for subject, work in _by_subject(batch.work, failed, blocked).items():
            planned = plan_subject(
                connection,
                subject,
                work=work,
                datasets=place.datasets,
                lake=place.lake,
                rebuilds=rebuilds,
                read_again=batch.read_again,
            )
            plans[subject] = planned.plans
            blocked |= planned.blocked
        scans = scans_of(connection, [plan for group in plans.values() for plan in group], place.datasets)
        failpoint("plan.after", connection)
    on_step()
    committed: list[CommittedPlan] = []
    lost: list[str] = []
    ready = _by_subject(batch.work, failed, blocked)
    with staging_folder(place.lake, scans) as staging:
        scanned = scan_segments(place.runner, scans, lake=place.lake, staging=staging)
        failpoint("scan.after")
        on_step()
        check_copies((plan for group in plans.values() for plan in group), scanned)
        commits = [
            partial(
                commit_work,
                place,
                run_id=run_id,
                work=work,
                plans=plans[subject],
                scanned=scanned,
                job=batch.job,
                read_again={
                    uri: outcome
                    for plan in plans[subject]
                    for uri, outcome in batch.read_again.get((plan.dataset, subject), {}).items()
                },
            )
            for subject, work in ready.items()
        ]
        outcomes = _side_by_side(commits, on_step)
    for subject, outcome in zip(ready, outcomes, strict=True):
        if outcome is None:
            lost.append(subject)
        else:
            committed += outcome
    done = [each for subject, work in ready.items() if subject not in lost for each in work]
    rejects = [rejects_of(each.item.source_uri, each.outcome) for each in done]
    waiting = {
        each.item.queue_id: told_blocked(rebuilds[where], blocked[where])
        for each in batch.work
        # Also where its own file could not be read: that may be mended by then as well.
        if (where := each.assignment.place) is not None and where in blocked
    }
    given_up = [
        (each, failed[each.item.queue_id])
        for each in batch.work
        if each.item.queue_id in failed and each.item.queue_id not in waiting
    ]
    give_back(place, [(each, message) for each, message in given_up if not each.waits_for_the_lake])
    give_back(
        place,
        [(each, message) for each, message in given_up if each.waits_for_the_lake],
        blocked_seconds=LAKE_SECONDS,
    )
    give_back(
        place,
        [(each, waiting[each.item.queue_id]) for each in batch.work if each.item.queue_id in waiting],
        blocked_seconds=BLOCKED_SECONDS,
    )
    return PassReport(
        completed=tuple(each.item.queue_id for each in done),
        failed=failed | waiting,
        lost_subjects=tuple(lost),
        plans=tuple(plan for group in plans.values() for plan in group),
        committed=tuple(committed),
        rejects=tuple(each for each in rejects if each is not None),
    )


def _by_subject(
    work: Sequence[Work], failed: Container[QueueId], blocked: Container[SubjectOfDataset | None]
) -> dict[str, list[Work]]:
    """What can be committed, by subject."""
    found: dict[str, list[Work]] = defaultdict(list)
    for each in work:
        if each.item.queue_id not in failed and each.assignment.place not in blocked:
            found[each.item.subject_key].append(each)
    return found


def _side_by_side(
    commits: Sequence[Callable[[], list[CommittedPlan]]], on_step: Callable[[], None]
) -> list[list[CommittedPlan] | None]:
    """Run the commits, some at a time; None for one whose lease is gone. After any other error none is begun."""
    failed = threading.Event()

    def run(commit: Callable[[], list[CommittedPlan]]) -> list[CommittedPlan] | None:
        if failed.is_set():
            return None
        try:
            on_step()
            return commit()
        except LeaseLostError as error:
            log.warning("%s", error)
            return None
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(COMMITS_AT_A_TIME, thread_name_prefix="commit") as executor:
        return list(executor.map(run, commits))
