"""One pass over a claimed batch, as a chain of stages: claimed, assigned, read, judged, planned, scanned, committed.

Spark jobs take all subjects of a batch together, so a stage goes from the values of all subjects to new ones.
"""

from __future__ import annotations

import logging
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from disarray.control import claims, definitions
from disarray.engine.jobs.scan_job import scan_readable_segments
from disarray.errors import LeaseLostError
from disarray.failpoints import failpoint
from disarray.worker.passes.assignment import assign
from disarray.worker.passes.committing import commit_work
from disarray.worker.passes.contradictions import find_contradictions
from disarray.worker.passes.item_outcomes import (
    Completed,
    HandedOver,
    Lost,
    Waits,
    failure_messages,
    give_back,
)
from disarray.worker.passes.moves import find_foreign, load_former_datasets, load_moves
from disarray.worker.passes.planning import plan_subject
from disarray.worker.passes.portions import in_commits
from disarray.worker.passes.rebuilding import (
    BLOCKED_SECONDS,
    due_rebuilds,
    in_portions,
    is_backfill,
)
from disarray.worker.passes.report import PassReport, joined, rejects_of
from disarray.worker.passes.resyncing import load_swaps, mark_superseded
from disarray.worker.passes.rows import check_copies, scans_of
from disarray.worker.passes.spoiling import spoiled_work
from disarray.worker.passes.stages import (
    Pass,
    judge_stage,
    newest_readings,
    read_stage,
    returned_items,
)
from disarray.worker.passes.subject_pass import by_subject
from disarray.worker.passes.work_order import CompactSubject, ResyncSubject
from disarray.worker.upkeep.subject_upkeep import keep_subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disarray.control.queue import QueueItem
    from disarray.control.resyncs import GenerationSwap
    from disarray.engine.jobs.scan_job import SegmentOfSubject
    from disarray.errors import RebuildBlockedError
    from disarray.worker.passes.assignment import Assignment
    from disarray.worker.passes.contradictions import Contradiction
    from disarray.worker.passes.item_outcomes import ItemOutcome
    from disarray.worker.passes.moves import Moves
    from disarray.worker.passes.reading import BatchRead
    from disarray.worker.passes.rebuilding import Rebuild, SubjectOfDataset
    from disarray.worker.passes.report import CommittedPlan
    from disarray.worker.passes.subject_pass import SubjectPass
    from disarray.worker.passes.work import Work
    from disarray.worker.workplace import Workplace

    Blocked = Mapping[SubjectOfDataset, RebuildBlockedError]

log = logging.getLogger(__name__)

# A commit waits for the disk and for the server's one core; a few of them wait together.
COMMITS_AT_A_TIME = 3


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of some files of a pass; `unharmed` can be done without others that cannot."""

    report: PassReport
    outcomes: list[ItemOutcome]
    blocked: Blocked
    unharmed: list[Assignment]


def process_items(
    workplace: Workplace,
    items: Sequence[QueueItem],
    *,
    on_step: Callable[[], None],
    finished: list[PassReport] | None = None,
    is_busy: bool = False,
) -> PassReport:
    """Do all that a batch of claimed items asks for; `on_step` hears of every step, so that leases are kept.

    A batch may take several commits. What is done stays done: `finished` gets the report of each part, so that it is
    known also after an error in a later one. Where live work came lately, `is_busy`, rebuilds take smaller portions.
    """
    reports = [] if finished is None else finished
    with workplace.pool.connection() as connection:
        definitions.assert_in_force(connection, workplace.datasets.values())
        moves = load_moves(connection, items)
        former = load_former_datasets(connection, items, workplace.datasets)
        assignments = assign(items, workplace.datasets, others=former)
        housekeeping = [each.item for each in assignments if each.asks_for(CompactSubject)]
        foreign = find_foreign(assignments, moves)
        handed = {each.queue_id for each in foreign}
        others = [
            each
            for each in assignments
            if not each.asks_for(CompactSubject) and each.item.queue_id not in handed
        ]
        others = mark_superseded(connection, others)
        rebuilds = due_rebuilds(connection, others)
        swaps = load_swaps(connection, others)
        if rebuilds:
            failpoint("rebuild.due", connection)
    give_back(workplace, [HandedOver(target) for target in foreign])
    known = replace(workplace, datasets={**workplace.datasets, **former}) if former else workplace
    weights = {key: rebuild.readings for key, rebuild in rebuilds.items()}
    swapping = [each for each in others if each.asks_for(ResyncSubject)]
    cut = partial(in_portions, cores=workplace.runner.cores, is_busy=is_busy)
    # Rebuilds of long histories are committed one after the other, and give way between them to files that come. Swaps
    # come last: what they take the place of is in by then, and not read beside them.
    portions = [
        *cut([each for each in others if each not in swapping], weights),
        *cut(swapping, {key: swap.rows for key, swap in swaps.items()}),
    ]
    for number, portion in enumerate(portions):
        if number and is_backfill(portion) and is_backfill(portions[number - 1]) and _is_awaited(workplace):
            left = {each.item.subject_key for rest in portions[number:] for each in rest}
            reports.append(PassReport(given_back=tuple(sorted(left))))
            break
        _process(known, portion, due=rebuilds, moves=moves, swaps=swaps, on_step=on_step, reports=reports)
    # Planned only now, on what the commits left.
    lost = {subject for report in reports for subject in report.lost_subjects}
    keeping = keep_subjects(
        workplace,
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


def _is_awaited(workplace: Workplace) -> bool:
    with workplace.pool.connection() as connection:
        return claims.is_live_work_waiting(connection, workplace.holder)


def _process(
    workplace: Workplace,
    assignments: Sequence[Assignment],
    *,
    due: Mapping[SubjectOfDataset, Rebuild],
    moves: Moves,
    swaps: Mapping[SubjectOfDataset, GenerationSwap],
    on_step: Callable[[], None],
    reports: list[PassReport],
) -> None:
    """Take the assigned items through all stages, and give back what was not committed."""
    subjects = {each.item.subject_key for each in assignments}
    rebuilds = {rebuild.key: rebuild for rebuild in due.values() if rebuild.subject_key in subjects}
    # A subject that waits for a rebuild is moved first: its order is queued again.
    own_swaps = {
        each.dataset_subject: swaps[each.dataset_subject]
        for each in assignments
        if each.asks_for(ResyncSubject)
        and each.dataset_subject is not None
        and each.dataset_subject in swaps
        and each.dataset_subject not in rebuilds
    }
    this = Pass(workplace, uuid.uuid4(), rebuilds, moves, on_step, swaps=own_swaps)
    judged = judge_stage(this, *read_stage(this, assignments))
    parts = in_commits(judged.ready, whole={subject for _, subject in (*rebuilds, *own_swaps)})
    if len(parts) > 1:
        # A part that is committed must not make the next one look late.
        this = replace(this, newest_us=newest_readings(workplace, judged.ready))
    outcomes: list[ItemOutcome] = [*judged.foreign]
    blocked = dict(judged.blocked)
    lost: set[str] = set()
    unharmed: list[Assignment] = []
    for part in parts:
        ended = _committed(
            this, [each for each in part if each.item.subject_key not in lost], judged.read, frozenset()
        )
        reports.append(ended.report)
        outcomes += ended.outcomes
        blocked |= ended.blocked
        lost |= set(ended.report.lost_subjects)
        unharmed += ended.unharmed
        this = this.after(part)
    outcomes += returned_items(judged.own, blocked, rebuilds)
    give_back(workplace, outcomes)
    reports.append(PassReport(failed=failure_messages(outcomes)))
    if unharmed:
        _process(
            workplace, unharmed, due=due, moves=this.moves, swaps=swaps, on_step=on_step, reports=reports
        )


def _committed(
    this: Pass, part: Sequence[Work], read: BatchRead, contradicting: frozenset[Contradiction]
) -> Ended:
    """Plan, scan and commit what was read of some files; what `contradicting` names is parked."""
    workplace = this.workplace
    with workplace.pool.connection() as connection:
        subjects = [
            each.with_plans(
                plan_subject(
                    connection,
                    each.subject_key,
                    work=each.work,
                    datasets=workplace.datasets,
                    lake=workplace.lake,
                    rebuilds=this.rebuilds,
                    read_again=read.read_again,
                    moves=this.moves,
                    newest_us=this.newest_us,
                    swaps=read.swaps,
                    contradicting=contradicting,
                ),
                read,
            )
            for each in by_subject(part, read)
        ]
        plans = [plan for each in subjects for plan in each.plans]
        scans = scans_of(connection, plans, workplace.datasets)
        failpoint("plan.after", connection)
    this.on_step()
    with workplace.lake.scratch_path() as staging:
        job = scan_readable_segments(workplace.runner, scans, lake=workplace.lake, staging=staging)
        failpoint("scan.after")
        this.on_step()
        with workplace.pool.connection() as connection:
            found = find_contradictions(connection, plans, workplace.datasets, job.scanned)
        if found <= contradicting:
            return _ended(this, [replace(each, scanned=job.scanned) for each in subjects], job.failures)
    # Only a scan can tell. With what contradicts parked, the others are scanned without it.
    return _committed(this, part, read, contradicting | found)


def _ended(this: Pass, subjects: Sequence[SubjectPass], failures: Mapping[SegmentOfSubject, str]) -> Ended:
    """One commit for each subject of which all segments could be scanned."""
    spoiled = spoiled_work(subjects, failures)
    ready = [each for each in subjects if each.work and each.subject_key not in spoiled.subjects]
    for each in ready:
        check_copies(each.plans, each.scanned)
    results = _side_by_side(
        [
            partial(commit_work, this.workplace, each, run_id=this.run_id, on_step=this.on_step)
            for each in ready
        ],
        this.on_step,
    )
    outcomes: list[ItemOutcome] = [
        Waits(work.item, message, BLOCKED_SECONDS) for work, message in spoiled.waiting
    ]
    for each, result in zip(ready, results, strict=True):
        outcomes += [Lost(work.item) if result is None else Completed(work.item) for work in each.work]
    done = [
        work for each, result in zip(ready, results, strict=True) if result is not None for work in each.work
    ]
    rejects = [rejects_of(work.item.source_uri, work.outcome) for work in done]
    report = PassReport(
        completed=tuple(work.item.queue_id for work in done),
        lost_subjects=tuple(
            each.subject_key for each, result in zip(ready, results, strict=True) if result is None
        ),
        plans=tuple(plan for each in subjects for plan in each.plans),
        committed=tuple(plan for result in results if result is not None for plan in result),
        rejects=tuple(each for each in rejects if each is not None),
    )
    blocked = {key: error for each in subjects for key, error in each.planned.blocked.items()}
    return Ended(report, outcomes, blocked, spoiled.unharmed)


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
