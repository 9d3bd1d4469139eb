"""One pass over a claimed batch: read, plan, scan, and one commit for each subject."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from disarray.control import catalog, definitions
from disarray.engine.jobs.scan_job import scan_readable_segments
from disarray.errors import LeaseLostError
from disarray.failpoints import failpoint
from disarray.worker.passes.assignment import assign
from disarray.worker.passes.committing import commit_work, give_back
from disarray.worker.passes.contradictions import find_contradictions
from disarray.worker.passes.moves import (
    find_foreign,
    hand_over,
    judge_subjects,
    load_former_datasets,
    load_moves,
)
from disarray.worker.passes.planning import plan_subject
from disarray.worker.passes.portions import in_commits
from disarray.worker.passes.reading import batch_requests, find_blocked, read_batch
from disarray.worker.passes.rebuilding import (
    BLOCKED_SECONDS,
    blocked_by_failures,
    due_rebuilds,
    in_portions,
    told_blocked,
)
from disarray.worker.passes.report import rejects_of
from disarray.worker.passes.rows import check_copies, scans_of
from disarray.worker.passes.spoiling import spoiled_work
from disarray.worker.passes.work_order import CompactSubject
from disarray.worker.upkeep.subject_upkeep import keep_subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from uuid import UUID

    from disarray.control.queue import QueueId, QueueItem
    from disarray.errors import RebuildBlockedError
    from disarray.model.plan import SubjectPlan
    from disarray.worker.passes.assignment import Assignment
    from disarray.worker.passes.contradictions import Contradiction
    from disarray.worker.passes.moves import Moves
    from disarray.worker.passes.planning import SubjectPlans
    from disarray.worker.passes.reading import BatchRead
    from disarray.worker.passes.rebuilding import Rebuild, SubjectOfDataset
    from disarray.worker.passes.report import CommittedPlan, FileRejects
    from disarray.worker.passes.spoiling import SpoiledWork
    from disarray.worker.passes.work import Work, Workplace
    from disarray.worker.upkeep.subject_upkeep import KeptSubject

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


@dataclass(frozen=True, slots=True)
class CommittedPart:
    """What became of some files of a pass; also the rebuilds that cannot be done, and what the lake does not give."""

    report: PassReport
    blocked: Mapping[SubjectOfDataset, RebuildBlockedError]
    spoiled: SpoiledWork


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


def process_items(
    place: Workplace,
    items: Sequence[QueueItem],
    *,
    on_step: Callable[[], None],
    finished: list[PassReport] | None = None,
) -> PassReport:
    """Do all that a batch of claimed items asks for; `on_step` hears of every step, so that leases are kept.

    A batch may take several commits. What is done stays done: `finished` gets the report of each part, so that it is
    known also after an error in a later one.
    """
    reports = [] if finished is None else finished
    with place.pool.connection() as connection:
        definitions.assert_in_force(connection, place.datasets.values())
        moves = load_moves(connection, items)
        former = load_former_datasets(connection, items, place.datasets)
        assignments = assign(items, place.datasets, others=former)
        housekeeping = [each.item for each in assignments if each.asks_for(CompactSubject)]
        foreign = find_foreign(assignments, moves)
        handed = {each.queue_id for each in foreign}
        others = [
            each
            for each in assignments
            if not each.asks_for(CompactSubject) and each.item.queue_id not in handed
        ]
        rebuilds = due_rebuilds(connection, others)
        if rebuilds:
            failpoint("rebuild.due", connection)
    hand_over(place, foreign)
    known = replace(place, datasets={**place.datasets, **former}) if former else place
    # Rebuilds of long histories are committed one after the other.
    for portion in in_portions(others, rebuilds):
        _process(known, portion, rebuilds, moves, on_step, reports)
    # Planned only now, on what the commits left.
    lost = {subject for report in reports for subject in report.lost_subjects}
    keeping = keep_subjects(
        place,
        [item for item in housekeeping if item.subject_key not in lost],
        on_step=on_step,
    )
    reports.append(
        PassReport(
            completed=keeping.completed,
            failed=keeping.failed,
            lost_subjects=keeping.lost_subjects,
            kept=keeping.kept,
        )
    )
    return joined(reports)


def _process(
    place: Workplace,
    assignments: Sequence[Assignment],
    due: Mapping[SubjectOfDataset, Rebuild],
    moves: Moves,
    on_step: Callable[[], None],
    reports: list[PassReport],
) -> None:
    run_id = uuid.uuid4()
    subjects = {each.item.subject_key for each in assignments}
    rebuilds = {rebuild.key: rebuild for rebuild in due.values() if rebuild.subject_key in subjects}
    with place.pool.connection() as connection:
        requests = batch_requests(connection, assignments, rebuilds, moves.homes)
    blocked = find_blocked(place.runner, requests)
    failpoint("read.before")
    batch = read_batch(
        place.runner, assignments, requests.without(blocked, assignments), lake=place.lake, run_id=run_id
    )
    failpoint("read.after")
    on_step()
    own, foreign = judge_subjects(batch.work, rebuilds)
    failed = {each.item.queue_id: each.failure for each in own if each.failure is not None}
    blocked |= blocked_by_failures(own, rebuilds)
    ready = [
        each for each in own if each.item.queue_id not in failed and each.assignment.place not in blocked
    ]
    parts = in_commits(ready, whole={subject for _, subject in rebuilds})
    # A part that is committed must not make the next one look late.
    newest_us = _newest_us(place, ready) if len(parts) > 1 else {}
    lost: set[str] = set()
    spoiled: list[tuple[Work, str]] = []
    unharmed: list[Assignment] = []
    leaving = moves
    for number, part in enumerate(parts):
        done = _commit_part(
            place,
            [each for each in part if each.item.subject_key not in lost],
            batch,
            # A subject has one row for each commit.
            run_id=run_id if number == 0 else uuid.uuid4(),
            rebuilds=rebuilds,
            moves=leaving,
            newest_us=newest_us,
            on_step=on_step,
        )
        reports.append(done.report)
        # What has to leave a subject left with the first part of it: a later one may bring it back.
        gone = {each.assignment.place for each in part}
        leaving = replace(
            leaving, leaving={where: files for where, files in leaving.leaving.items() if where not in gone}
        )
        blocked |= done.blocked
        lost |= set(done.report.lost_subjects)
        spoiled += done.spoiled.waiting
        unharmed += done.spoiled.unharmed
    waiting = {
        each.item.queue_id: told_blocked(rebuilds[where], blocked[where])
        for each in own
        # Also where its own file could not be read: that may be mended by then as well.
        if (where := each.assignment.place) is not None and where in blocked
    } | {each.item.queue_id: message for each, message in spoiled}
    given_up = [
        (each, failed[each.item.queue_id])
        for each in own
        if each.item.queue_id in failed and each.item.queue_id not in waiting
    ]
    hand_over(place, foreign)
    give_back(place, [(each, message) for each, message in given_up if not each.waits_for_the_lake])
    give_back(
        place,
        [(each, message) for each, message in given_up if each.waits_for_the_lake],
        blocked_seconds=LAKE_SECONDS,
    )
    give_back(
        place,
        [(each, waiting[each.item.queue_id]) for each in own if each.item.queue_id in waiting],
        blocked_seconds=BLOCKED_SECONDS,
    )
    reports.append(PassReport(failed=failed | waiting))
    if unharmed:
        _process(place, unharmed, due, leaving, on_step, reports)


def _commit_part(
    place: Workplace,
    part: Sequence[Work],
    batch: BatchRead,
    *,
    run_id: UUID,
    rebuilds: Mapping[SubjectOfDataset, Rebuild],
    moves: Moves,
    newest_us: Mapping[SubjectOfDataset, int | None],
    on_step: Callable[[], None],
    contradicting: frozenset[Contradiction] = frozenset(),
) -> CommittedPart:
    """Plan, scan and commit what was read of some files; what `contradicting` names is parked."""
    blocked: dict[SubjectOfDataset, RebuildBlockedError] = {}
    planned_subjects: dict[str, SubjectPlans] = {}
    with place.pool.connection() as connection:
        for subject, work in _by_subject(part, blocked).items():
            planned = plan_subject(
                connection,
                subject,
                work=work,
                datasets=place.datasets,
                lake=place.lake,
                rebuilds=rebuilds,
                read_again=batch.read_again,
                moves=moves,
                newest_us=newest_us,
                contradicting=contradicting,
            )
            planned_subjects[subject] = planned
            blocked |= planned.blocked
        plans = [plan for planned in planned_subjects.values() for plan in planned.plans]
        scans = scans_of(connection, plans, place.datasets)
        failpoint("plan.after", connection)
    on_step()
    committed: list[CommittedPlan] = []
    lost: list[str] = []
    ready = _by_subject(part, blocked)
    with place.lake.scratch_path() as staging:
        scan_job = scan_readable_segments(place.runner, scans, lake=place.lake, staging=staging)
        failpoint("scan.after")
        on_step()
        scanned = scan_job.scanned
        with place.pool.connection() as connection:
            found = find_contradictions(connection, plans, place.datasets, scanned)
        if found - contradicting:
            # Only a scan can tell. With what contradicts parked, the others are scanned without it.
            return _commit_part(
                place,
                part,
                batch,
                run_id=run_id,
                rebuilds=rebuilds,
                moves=moves,
                newest_us=newest_us,
                on_step=on_step,
                contradicting=contradicting | found,
            )
        spoiled = spoiled_work(ready, planned_subjects, scan_job.failures)
        for subject in spoiled.subjects:
            ready.pop(subject, None)
        check_copies((plan for plan in plans if plan.subject_key in ready), scanned)
        commits = [
            partial(
                commit_work,
                place,
                run_id=run_id,
                work=work,
                plans=planned_subjects[subject].plans,
                scanned=scanned,
                job=batch.job,
                read_again={
                    uri: outcome
                    for plan in planned_subjects[subject].plans
                    for uri, outcome in batch.read_again.get((plan.dataset, subject), {}).items()
                },
                leaving=planned_subjects[subject].leaving,
                left=planned_subjects[subject].left,
                on_step=on_step,
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
    report = PassReport(
        completed=tuple(each.item.queue_id for each in done),
        lost_subjects=tuple(lost),
        plans=tuple(plans),
        committed=tuple(committed),
        rejects=tuple(each for each in rejects if each is not None),
    )
    return CommittedPart(report, blocked, spoiled)


def _newest_us(place: Workplace, work: Sequence[Work]) -> dict[SubjectOfDataset, int | None]:
    """The newest reading of each subject and dataset, as it is before the pass."""
    places = {each.assignment.place for each in work}
    with place.pool.connection() as connection:
        return {
            where: catalog.high_event_us(connection, *where)
            for where in sorted(where for where in places if where is not None)
        }


def _by_subject(work: Sequence[Work], blocked: Container[SubjectOfDataset | None]) -> dict[str, list[Work]]:
    """What can be committed, by subject."""
    found: dict[str, list[Work]] = defaultdict(list)
    for each in work:
        if each.assignment.place not in blocked:
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
