"""One pass over a claimed batch: read, plan, scan, and one commit for each subject."""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.engine.read_job import read_files
from disarray.engine.scan_job import SegmentScan, scan_segments
from disarray.errors import LeaseLostError, OtherVersionError
from disarray.worker.assignment import Assignment, assign, read_requests
from disarray.worker.committing import commit_work, give_back
from disarray.worker.planning import plan_subject
from disarray.worker.work import Work, Workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from disarray.control.queue import QueueId, QueueItem
    from disarray.engine.read_job import ReadJobResult
    from disarray.model.plan import SubjectPlan
    from disarray.worker.report import CommittedPlan

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PassReport:
    """What became of a batch: every item is completed, failed with a message, or lost with its subject."""

    completed: tuple[QueueId, ...] = ()
    failed: Mapping[QueueId, str] = field(default_factory=dict)
    lost_subjects: tuple[str, ...] = ()
    plans: tuple[SubjectPlan, ...] = ()
    committed: tuple[CommittedPlan, ...] = ()


def joined(reports: Sequence[PassReport]) -> PassReport:
    """The report of several passes as one."""
    return PassReport(
        completed=tuple(queue_id for report in reports for queue_id in report.completed),
        failed={queue_id: text for report in reports for queue_id, text in report.failed.items()},
        lost_subjects=tuple(subject for report in reports for subject in report.lost_subjects),
        plans=tuple(plan for report in reports for plan in report.plans),
        committed=tuple(commit for report in reports for commit in report.committed),
    )


def process_items(place: Workplace, items: Sequence[QueueItem], *, on_step: Callable[[], None]) -> PassReport:
    """Do all that a batch of claimed items asks for; `on_step` hears of every step, so that leases are kept."""
    run_id = uuid.uuid4()
    job, all_work = _read(place, assign(items, place.datasets), run_id)
    on_step()
    failed = {each.item.queue_id: each.failure for each in all_work if each.failure is not None}
    by_subject: dict[str, list[Work]] = defaultdict(list)
    for each in all_work:
        if each.item.queue_id not in failed:
            by_subject[each.item.subject_key].append(each)

    plans: dict[str, list[SubjectPlan]] = {}
    with place.pool.connection() as connection:
        for subject, work in list(by_subject.items()):
            try:
                plans[subject] = plan_subject(
                    connection, subject, work=work, datasets=place.datasets, lake=place.lake
                )
            except OtherVersionError as error:
                failed |= {each.item.queue_id: str(error) for each in by_subject.pop(subject)}
    scans = [
        SegmentScan(place.datasets[plan.dataset], plan.subject_key, unit)
        for group in plans.values()
        for plan in group
        for unit in plan.units
    ]
    on_step()
    scanned = scan_segments(place.runner, scans, lake=place.lake)
    on_step()
    completed: list[QueueId] = []
    committed: list[CommittedPlan] = []
    lost: list[str] = []
    for subject, work in by_subject.items():
        try:
            committed += commit_work(
                place, run_id=run_id, work=work, plans=plans[subject], scanned=scanned, job=job
            )
            completed += [each.item.queue_id for each in work]
        except LeaseLostError as error:
            log.warning("%s", error)
            lost.append(subject)
        on_step()
    for each in all_work:
        if each.item.queue_id in failed:
            give_back(place, each, failed[each.item.queue_id])
    return PassReport(
        completed=tuple(completed),
        failed=failed,
        lost_subjects=tuple(lost),
        plans=tuple(plan for group in plans.values() for plan in group),
        committed=tuple(committed),
    )


def _read(
    place: Workplace, assignments: Sequence[Assignment], run_id: UUID
) -> tuple[ReadJobResult, list[Work]]:
    with place.pool.connection() as connection:
        requests = read_requests(connection, assignments)
    job = read_files(place.runner, list(requests.values()), lake=place.lake, run_id=run_id)
    outcomes = dict(zip(requests, job.outcomes, strict=True))
    return job, [Work(assignment, outcomes.get(assignment.item.queue_id)) for assignment in assignments]
