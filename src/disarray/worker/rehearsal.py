"""What a pass would do, found out by doing all of it but the commit."""

from __future__ import annotations

import tempfile
import uuid
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.control import commits, status
from disarray.control.queue import Incarnation, QueueId, QueueItem
from disarray.engine.read_job import read_files
from disarray.engine.runner import InProcessRunner
from disarray.engine.scan_job import SegmentScan, scan_segments
from disarray.errors import StalePlanError
from disarray.model.segments import datetime_of
from disarray.store.lake import ScratchLake
from disarray.worker.assignment import assign, read_requests
from disarray.worker.committing import dataset_commit
from disarray.worker.planning import plan_subject
from disarray.worker.work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.commits import CommitPreview
    from disarray.control.connections import Connection
    from disarray.control.files import Notification
    from disarray.model.dataset import Dataset
    from disarray.model.plan import SubjectPlan
    from disarray.store.lake import Lake

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class RehearsedPlan:
    """A plan, and what its commit would do to totals and buckets."""

    plan: SubjectPlan
    impact: CommitPreview


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a batch would do, and why some of its files could not be read, by uri."""

    plans: tuple[RehearsedPlan, ...]
    failures: Mapping[str, str]


def rehearse(
    connection: Connection,
    notifications: Sequence[Notification],
    *,
    datasets: Mapping[str, Dataset],
    lake: Lake,
) -> Rehearsal:
    """Read, plan and scan in this process, into a folder that is thrown away, and preview the commits.

    Another worker may commit meanwhile: then it is done again. Nothing is queued, locked for long, or changed.
    """
    for attempt in range(_ATTEMPTS):
        try:
            with tempfile.TemporaryDirectory(prefix="disarray-") as scratch:
                return _rehearse(
                    connection, notifications, datasets=datasets, lake=ScratchLake(lake.root, Path(scratch))
                )
        except StalePlanError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt either returns or raises")


def _rehearse(
    connection: Connection,
    notifications: Sequence[Notification],
    *,
    datasets: Mapping[str, Dataset],
    lake: ScratchLake,
) -> Rehearsal:
    runner = InProcessRunner()
    items = _as_if_claimed(connection, notifications)
    assignments = assign(items, datasets)
    requests = read_requests(connection, assignments)
    job = read_files(runner, list(requests.values()), lake=lake, run_id=uuid.uuid4())
    outcomes = dict(zip(requests, job.outcomes, strict=True))
    work = [Work(assignment, outcomes.get(assignment.item.queue_id)) for assignment in assignments]
    failures = {each.item.source_uri: each.failure for each in work if each.failure is not None}
    by_subject: dict[str, list[Work]] = defaultdict(list)
    for each in work:
        if each.item.source_uri not in failures:
            by_subject[each.item.subject_key].append(each)
    plans = [
        plan
        for subject, group in by_subject.items()
        for plan in plan_subject(connection, subject, work=group, datasets=datasets, lake=lake)
    ]
    scanned = scan_segments(
        runner,
        [
            SegmentScan(datasets[plan.dataset], plan.subject_key, unit)
            for plan in plans
            for unit in plan.units
        ],
        lake=lake,
    )
    return Rehearsal(
        tuple(
            RehearsedPlan(
                plan,
                commits.preview_commit(
                    connection,
                    plan.subject_key,
                    dataset_commit(connection, datasets[plan.dataset], plan, scanned=scanned),
                ),
            )
            for plan in plans
        ),
        failures,
    )


def _as_if_claimed(connection: Connection, notifications: Sequence[Notification]) -> list[QueueItem]:
    now = datetime_of(status.current_us(connection))
    return [
        QueueItem(
            queue_id=QueueId(number),
            source_uri=each.source_uri,
            subject_key=each.subject_key,
            reason=each.reason,
            metadata=each.metadata,
            retry_count=0,
            lease_expires_at=now,
            fence=0,
            dataset=each.metadata.get("dataset"),
            content_hash=None,
            incarnation=Incarnation(0),
        )
        for number, each in enumerate(notifications)
    ]
