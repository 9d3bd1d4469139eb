"""One pass over a claimed batch: read, plan, scan, and one commit for each subject."""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from disarray.control import catalog, commits, queue, status, subjects
from disarray.control.commits import DatasetCommit, LakeFile, RejectedRows, SubjectCommit
from disarray.control.retries import call_idempotent
from disarray.engine.read_job import read_files
from disarray.engine.scan_job import SegmentScan, scan_segments
from disarray.errors import ControlError, DatabaseUnavailableError, LeaseLostError
from disarray.kernels.outcome import ReadOutcome, ReadStatus
from disarray.model.plan import FileChange, SubjectPlan, plan_changes, plan_scans
from disarray.model.segments import datetime_of
from disarray.worker.assignment import Assignment, assign, file_change, read_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from disarray.control.connections import Connection, Pool
    from disarray.control.metadata import Metadata
    from disarray.control.queue import Holder, QueueId, QueueItem
    from disarray.engine.read_job import ReadJobResult
    from disarray.engine.runner import Runner
    from disarray.engine.scan_job import ScannedSegment
    from disarray.model.dataset import Dataset
    from disarray.store.lake import Lake

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a worker works with."""

    pool: Pool
    runner: Runner
    lake: Lake
    datasets: Mapping[str, Dataset]
    holder: Holder


@dataclass(frozen=True, slots=True)
class PassReport:
    """What became of a batch."""

    run_id: UUID
    completed: tuple[QueueId, ...]
    failed: Mapping[QueueId, str]
    lost: tuple[str, ...]
    plans: tuple[SubjectPlan, ...]


@dataclass(frozen=True, slots=True)
class _Work:
    """One item, and what reading its file gave; None where nothing was to be read."""

    assignment: Assignment
    outcome: ReadOutcome | None

    @property
    def item(self) -> QueueItem:
        return self.assignment.item


def process_items(place: Workplace, items: Sequence[QueueItem]) -> PassReport:
    """Do all that a batch of claimed items asks for. Every item ends completed, failed, or lost with its lease."""
    run_id = uuid.uuid4()
    assignments = assign(items, place.datasets)
    job, work = _read(place, assignments, run_id)
    failed = {each.item.queue_id: message for each in work if (message := _failure(each)) is not None}
    by_subject: dict[str, list[_Work]] = defaultdict(list)
    for each in work:
        if each.item.queue_id not in failed:
            by_subject[each.item.subject_key].append(each)

    with place.pool.connection() as connection:
        plans = {key: _plan(place, connection, key, group) for key, group in by_subject.items()}
    scans = [
        SegmentScan(place.datasets[plan.dataset], plan.subject_key, unit)
        for group in plans.values()
        for plan in group
        for unit in plan.units
    ]
    scanned = scan_segments(place.runner, scans, lake=place.lake)
    lost = []
    completed: list[QueueId] = []
    for key, group in by_subject.items():
        try:
            _commit(place, _subject_commit(place, run_id, group, plans[key], scanned, job))
            completed += [each.item.queue_id for each in group]
        except LeaseLostError as error:
            log.warning("%s", error)
            lost.append(key)
    for each in work:
        if each.item.queue_id in failed:
            _give_back(place, each, failed[each.item.queue_id])
    return PassReport(
        run_id=run_id,
        completed=tuple(completed),
        failed=failed,
        lost=tuple(lost),
        plans=tuple(plan for group in plans.values() for plan in group),
    )


def _read(
    place: Workplace, assignments: Sequence[Assignment], run_id: UUID
) -> tuple[ReadJobResult, list[_Work]]:
    uris = [assignment.item.source_uri for assignment in assignments if assignment.is_about_a_file]
    with place.pool.connection() as connection:
        known = catalog.load_fingerprints(connection, uris)
        now_us = status.current_us(connection)
    requests = {}
    for assignment in assignments:
        uri = assignment.item.source_uri
        request = read_request(assignment, stored=known.get(uri), now_us=now_us)
        if request is not None:
            requests[assignment.item.queue_id] = request
    job = read_files(place.runner, list(requests.values()), lake=place.lake, run_id=run_id)
    outcomes = dict(zip(requests, job.outcomes, strict=True))
    return job, [_Work(assignment, outcomes.get(assignment.item.queue_id)) for assignment in assignments]


def _failure(work: _Work) -> str | None:
    """Why an item cannot be completed, None where it can."""
    if work.assignment.is_about_a_file and work.assignment.dataset is None:
        return (
            f"no dataset takes {work.item.source_uri}. Nothing was read. Describe it in disarray.toml, "
            "then: disarray files reingest"
        )
    outcome = work.outcome
    if outcome is None or outcome.status in (ReadStatus.READ, ReadStatus.UNCHANGED, ReadStatus.PARKED):
        return None
    if outcome.status is ReadStatus.VANISHED and work.item.content_hash is not None and work.item.retry_count:
        return outcome.message
    return outcome.message or "the file could not be read"


def _plan(place: Workplace, connection: Connection, subject_key: str, group: Sequence[_Work]) -> list[SubjectPlan]:
    by_dataset: dict[str, list[FileChange]] = defaultdict(list)
    for each in group:
        change = file_change(each.assignment, each.outcome, place.lake)
        if change is not None and each.assignment.dataset is not None:
            by_dataset[each.assignment.dataset.name].append(change)
    plans = []
    for name, changes in by_dataset.items():
        dataset = place.datasets[name]
        known = catalog.load_file_fragments(connection, [change.source_uri for change in changes])
        shared = _share_fragments(connection, dataset, subject_key, changes, group)
        high_us = catalog.high_event_us(connection, name, subject_key)
        horizon = dataset.horizon_us
        catalog_changes = plan_changes(
            shared,
            known,
            horizon_start_us=high_us - horizon if high_us is not None and horizon is not None else None,
        )
        touched = catalog_changes.touched_segments
        active = catalog.load_segment_fragments(connection, name, subject_key, segments=touched)
        revisions = {
            segment.segment_us: segment.revision
            for segment in catalog.load_segments(
                connection, name, subject_key, from_us=min(touched, default=0), to_us=max(touched, default=-1)
            )
        }
        units = plan_scans(catalog_changes, active, revisions)
        plans.append(SubjectPlan(dataset=name, subject_key=subject_key, changes=catalog_changes, units=units))
    return plans
