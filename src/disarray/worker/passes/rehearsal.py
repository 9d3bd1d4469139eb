"""What a pass would do, found out by doing all of it but the commit."""

from __future__ import annotations

import tempfile
import uuid
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.control import commits, status
from disarray.control.files import Notification, Reason
from disarray.control.queue import Incarnation, Lane, OrderKind, QueueId, QueueItem
from disarray.engine.jobs.scan_job import SegmentScan, scan_segments
from disarray.engine.runner import InProcessRunner
from disarray.errors import StalePlanError
from disarray.model.segments import datetime_of
from disarray.store.definitions import definitions_of
from disarray.store.lake import ScratchLake
from disarray.worker.passes.assignment import assign
from disarray.worker.passes.committing import dataset_commit
from disarray.worker.passes.moves import load_moves
from disarray.worker.passes.planning import plan_subject
from disarray.worker.passes.reading import batch_requests, read_batch
from disarray.worker.passes.report import rejects_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.commits import CommitPreview
    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata
    from disarray.control.quarantine import Quarantined
    from disarray.model.description.dataset import Dataset
    from disarray.model.plan import SubjectPlan
    from disarray.store.lake import Lake
    from disarray.worker.passes.report import FileRejects

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class RehearsedPlan:
    """A plan, and what its commit would do to totals and buckets."""

    plan: SubjectPlan
    impact: CommitPreview
    is_rebuild_pending: bool = False  # both are of the former definition


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a batch would do, why some of its files could not be read, by uri, and which rows are no readings."""

    plans: tuple[RehearsedPlan, ...]
    failures: Mapping[str, str]
    rejects: tuple[FileRejects, ...] = ()


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


def rehearse_release(
    connection: Connection, waiting: Quarantined, *, datasets: Mapping[str, Dataset], lake: Lake
) -> Rehearsal:
    """What releasing a file from quarantine would change."""
    metadata: Metadata = {
        "dataset": waiting.dataset,
        f"release_{waiting.part}": True,
    }
    notification = Notification(waiting.source_uri, waiting.subject_key, Reason.RELEASE, metadata)
    return rehearse(connection, [notification], datasets=datasets, lake=lake)


def _rehearse(
    connection: Connection,
    notifications: Sequence[Notification],
    *,
    datasets: Mapping[str, Dataset],
    lake: ScratchLake,
) -> Rehearsal:
    runner = InProcessRunner()
    by_subject: dict[str, list[Notification]] = defaultdict(list)
    for each in notifications:
        by_subject[each.subject_key].append(each)
    plans: list[RehearsedPlan] = []
    failures: dict[str, str] = {}
    rejects: list[FileRejects] = []
    for subject, group in by_subject.items():
        # Numbers that wait for a rebuild are those of the former definition: so is what would change them now.
        known = definitions_of(connection, datasets, subject)
        assignments = assign(_as_if_claimed(connection, group), known)
        moves = load_moves(connection, [each.item for each in assignments])
        requests = batch_requests(connection, assignments, {}, moves.homes)
        batch = read_batch(runner, assignments, requests, lake=lake, run_id=uuid.uuid4())
        failures |= {each.item.file_uri: each.failure for each in batch.work if each.failure is not None}
        work = [each for each in batch.work if each.failure is None]
        found = [rejects_of(each.item.file_uri, each.outcome) for each in work]
        rejects += [each for each in found if each is not None]
        planned = plan_subject(connection, subject, work=work, datasets=known, lake=lake, moves=moves).plans
        scans = [
            SegmentScan(known[plan.dataset], subject, unit, former=plan.former)
            for plan in planned
            for unit in plan.units
        ]
        scanned = scan_segments(runner, scans, lake=lake)
        plans += [
            RehearsedPlan(
                plan,
                commits.preview_commit(
                    connection,
                    subject,
                    dataset_commit(connection, known[plan.dataset], plan, scanned=scanned),
                ),
                is_rebuild_pending=known[plan.dataset] is not datasets[plan.dataset],
            )
            for plan in planned
        ]
    return Rehearsal(tuple(plans), failures, tuple(rejects))


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
            kind=OrderKind.READ,
            lane=Lane.LIVE,
        )
        for number, each in enumerate(notifications)
    ]
