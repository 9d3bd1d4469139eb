"""What a pass would do, found out by doing all of it but the commit."""

from __future__ import annotations

import tempfile
import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.control import definitions, previews
from disarray.control.connections import undone
from disarray.control.files import Notification, Reason
from disarray.control.queue import Incarnation, Lane, OrderKind, QueueId, QueueItem
from disarray.engine.jobs.scan_job import SegmentScan, scan_segments
from disarray.engine.runner import InProcessRunner
from disarray.errors import StalePlanError
from disarray.store.definitions import definitions_of
from disarray.store.lake import ScratchLake
from disarray.worker.passes.assignment import Assignment, assign
from disarray.worker.passes.commit_contents import conflicts_with, dataset_commit
from disarray.worker.passes.contradictions import find_contradictions
from disarray.worker.passes.moves import Moves, find_foreign, judge_subjects, leaving_files, load_moves
from disarray.worker.passes.parts import split_work
from disarray.worker.passes.planning import plan_subject
from disarray.worker.passes.reading import batch_requests, read_batch
from disarray.worker.passes.report import rejects_of
from disarray.worker.passes.work import Work

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from disarray.control.commits import DatasetCommit
    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata
    from disarray.control.moving_files import HandOver, Home
    from disarray.control.previews import CommitPreview
    from disarray.control.quarantine import Quarantined
    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset
    from disarray.model.plan import SubjectPlan
    from disarray.store.lake import Lake
    from disarray.worker.passes.contradictions import Contradiction
    from disarray.worker.passes.rebuilding import SubjectOfDataset
    from disarray.worker.passes.report import FileRejects

_ATTEMPTS = 3
# By its path, by its content, and once more should the file be replaced in between.
_HAND_OVERS = 3
_NEVER = datetime.max.replace(tzinfo=UTC)  # nothing is claimed here, so no lease runs out


@dataclass(frozen=True, slots=True)
class RehearsedPlan:
    """A plan, and what its commit would do to totals and buckets."""

    plan: SubjectPlan
    impact: CommitPreview
    is_rebuild_pending: bool = False  # both are of the former definition
    conflicts: tuple[int, int] = (0, 0)  # readings that come and disagree with others: winners, losers


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
    items = _as_if_claimed(notifications)
    homes = load_moves(connection, items).homes
    work, failures = _read_where_they_belong(
        connection, runner, items, homes=homes, datasets=datasets, lake=lake
    )
    found = [rejects_of(each.item.file_uri, each.outcome) for each in work]
    work = [part for each in work for part in split_work(each)]
    leaving = _leaving(work, homes)
    first_id = len(items)
    departing = [
        _item(
            QueueId(first_id + number),
            subject,
            kind=OrderKind.REBUILD,
            reason=Reason.REBUILD,
            metadata={"dataset": dataset},
        )
        for number, (dataset, subject) in enumerate(leaving)
    ]
    noted = load_moves(connection, [*(each.item for each in work), *departing]).leaving
    moves = Moves(
        homes,
        {key: {**noted.get(key, {}), **leaving.get(key, {})} for key in {**noted, **leaving}},
    )
    plans: list[RehearsedPlan] = []
    for subject in dict.fromkeys(item.subject_key for item in (*(each.item for each in work), *departing)):
        # Numbers that wait for a rebuild are those of the former definition: so is what would change them now.
        known = _definitions_of(connection, datasets, subject, also={name for name, _ in leaving})
        own = [each for each in work if each.item.subject_key == subject]
        own += [
            Work(Assignment(item, known[name]), None)
            for item, (name, _) in zip(departing, leaving, strict=True)
            if item.subject_key == subject
        ]
        plans += _rehearse_subject(
            connection, runner, subject, work=own, moves=moves, known=known, datasets=datasets, lake=lake
        )
    return Rehearsal(tuple(plans), failures, tuple(each for each in found if each is not None))


def _read_where_they_belong(
    connection: Connection,
    runner: Runner,
    items: Sequence[QueueItem],
    *,
    homes: Mapping[str, Sequence[Home]],
    datasets: Mapping[str, Dataset],
    lake: ScratchLake,
) -> tuple[list[Work], dict[str, str]]:
    """What was read, each file for the subject that it is about; and why others could not be read, by uri."""
    ready: list[Work] = []
    failures: dict[str, str] = {}
    waiting = list(items)
    for _ in range(_HAND_OVERS):
        handed: list[HandOver] = []
        by_subject: dict[str, list[QueueItem]] = defaultdict(list)
        for item in waiting:
            by_subject[item.subject_key].append(item)
        for subject, group in by_subject.items():
            known = definitions_of(connection, datasets, subject)
            # Where a file belongs is for the definitions of now to say, what it means here for those of the subject.
            assignments = [
                each if each.dataset is None else replace(each, dataset=known[each.dataset.name])
                for each in assign(group, datasets)
            ]
            foreign = find_foreign(assignments, Moves(homes))
            elsewhere = {each.queue_id for each in foreign}
            assignments = [each for each in assignments if each.item.queue_id not in elsewhere]
            requests = batch_requests(connection, assignments, {}, homes, swaps={}, datasets=datasets)
            batch = read_batch(runner, assignments, requests, lake=lake, run_id=uuid.uuid4(), swaps={})
            own, foreign_inside = judge_subjects(batch.work, {})
            handed += (*foreign, *foreign_inside)
            failures |= {each.item.file_uri: each.failure for each in own if each.failure is not None}
            ready += [each for each in own if each.failure is None]
        targets = {each.queue_id: each for each in handed}
        waiting = [
            replace(item, subject_key=target.subject_key, dataset=target.dataset)
            for item in waiting
            if (target := targets.get(item.queue_id)) is not None
        ]
    failures |= {
        item.file_uri: f"{item.source_uri} changes while it is read: it says {item.subject_key} now, and said "
        "something else a moment ago. Nothing was changed; ask again"
        for item in waiting
    }
    return ready, failures


def _leaving(
    work: Sequence[Work], homes: Mapping[str, Sequence[Home]]
) -> dict[SubjectOfDataset, dict[str, int | None]]:
    """What would leave other datasets and subjects once the files count where they belong."""
    found: dict[SubjectOfDataset, dict[str, int | None]] = defaultdict(dict)
    for each in work:
        for gone in leaving_files([each], each.item.subject_key, Moves(homes)):
            found[gone.dataset, gone.subject_key][gone.source_uri] = gone.generation
    return found


def _definitions_of(
    connection: Connection, datasets: Mapping[str, Dataset], subject: str, *, also: Collection[str]
) -> dict[str, Dataset]:
    """The datasets as a subject has them; `also` those that files leave and the project no longer describes."""
    known = definitions_of(connection, datasets, subject)
    former = {*also} - known.keys()
    made = definitions.load_subject_versions(connection, [subject]) if former else {}
    return known | {
        name: definitions.load_definition(connection, name, made[name, subject].version)
        for name in former
        if (name, subject) in made
    }


def _rehearse_subject(
    connection: Connection,
    runner: Runner,
    subject: str,
    *,
    work: Sequence[Work],
    moves: Moves,
    known: Mapping[str, Dataset],
    datasets: Mapping[str, Dataset],
    lake: ScratchLake,
) -> list[RehearsedPlan]:
    contradicting: frozenset[Contradiction] = frozenset()
    while True:
        planned = plan_subject(
            connection,
            subject,
            work=work,
            datasets=known,
            lake=lake,
            moves=moves,
            contradicting=contradicting,
        ).plans
        scans = [
            SegmentScan(known[plan.dataset], subject, unit, former=plan.former)
            for plan in planned
            for unit in plan.units
        ]
        scanned = scan_segments(runner, scans, lake=lake)
        found = find_contradictions(connection, planned, known, scanned)
        if found <= contradicting:
            break
        contradicting |= found
    return [
        RehearsedPlan(
            plan,
            _preview(
                connection,
                subject,
                known[plan.dataset],
                dataset_commit(connection, known[plan.dataset], plan, scanned=scanned),
            ),
            is_rebuild_pending=plan.dataset in datasets and known[plan.dataset] is not datasets[plan.dataset],
            conflicts=conflicts_with(plan, scanned),
        )
        for plan in planned
    ]


def _preview(connection: Connection, subject: str, dataset: Dataset, part: DatasetCommit) -> CommitPreview:
    if definitions.is_defined(connection, dataset):
        return previews.preview_commit(connection, subject, part)
    # Numbers are made under a definition that the database knows. This one is new: known as long as the preview takes.
    with undone(connection):
        definitions.register_dataset(connection, dataset)
        return previews.preview_commit(connection, subject, part)


def _as_if_claimed(notifications: Sequence[Notification]) -> list[QueueItem]:
    return [
        _item(
            QueueId(number),
            each.subject_key,
            kind=OrderKind.READ,
            reason=each.reason,
            metadata=each.metadata,
            source_uri=each.source_uri,
        )
        for number, each in enumerate(notifications)
    ]


def _item(
    queue_id: QueueId,
    subject_key: str,
    *,
    kind: OrderKind,
    reason: Reason,
    metadata: Metadata,
    source_uri: str | None = None,
) -> QueueItem:
    return QueueItem(
        queue_id=queue_id,
        source_uri=source_uri,
        subject_key=subject_key,
        reason=reason,
        metadata=metadata,
        retry_count=0,
        lease_expires_at=_NEVER,
        fence=0,
        dataset=metadata.get("dataset"),
        content_hash=None,
        incarnation=Incarnation(0),
        kind=kind,
        lane=Lane.LIVE,
    )
