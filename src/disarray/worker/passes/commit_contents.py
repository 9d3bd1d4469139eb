"""What one commit says: everything that the stages of a pass found out about a subject, keyed like the catalog."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from disarray.control import catalog
from disarray.control.commits import DatasetCommit, MovedFile, Profile, SubjectCommit
from disarray.model.fragments import FragmentState
from disarray.worker.passes.completions import about_sealed, completion, dataset_read, rejected_rows
from disarray.worker.passes.counting import commit_figures
from disarray.worker.passes.parts import split_files, superseded_deliveries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.engine.jobs.scan_job import ScannedSegment
    from disarray.model.description.dataset import Dataset
    from disarray.model.fragments import FragmentEntry
    from disarray.model.plan import SubjectPlan
    from disarray.worker.passes.subject_pass import SubjectPass
    from disarray.worker.workplace import Workplace

# Of readings that disagree, so many at most are shown with their values for each commit: some hundred kilobytes.
MOST_EXAMPLES = 1_000


def subject_commit(
    connection: Connection, workplace: Workplace, subject: SubjectPass, *, run_id: UUID
) -> SubjectCommit:
    """All that was found out about one subject, as one commit."""
    work, plans, scanned, read_again = subject.work, subject.plans, subject.scanned, subject.read_again
    added = [fragment for plan in plans for fragment in plan.changes.added]
    parked = {fragment.source_uri for fragment in added if fragment.state is FragmentState.PARKED}
    sealed: dict[str, list[FragmentEntry]] = defaultdict(list)
    for plan in plans:
        for fragment in plan.changes.sealed:
            sealed[fragment.source_uri].append(fragment)
    parts = split_files(connection, work, workplace.lake)
    used = {fragment.path for fragment in added}
    used |= {fragment["path"] for part in parts for fragment in part.fragments}
    files = [replace(file, path=workplace.lake.relative(file.path)) for file in subject.files]
    read = {
        **{each.item.file_uri: each.outcome for each in work if each.is_read and each.outcome is not None},
        **read_again,
    }
    moved = _moved_files(plans)
    read = {uri: outcome for uri, outcome in read.items() if uri not in moved}
    rows_follow = any(
        scanned[plan.dataset, plan.subject_key, unit.segment_us].parts is not None
        for plan in plans
        for unit in plan.units
    )
    return SubjectCommit(
        run_id=run_id,
        subject_key=subject.subject_key,
        fence=work[0].item.fence,
        datasets=[
            dataset_commit(
                connection,
                workplace.datasets[plan.dataset],
                plan,
                scanned=scanned,
                has_rows=not rows_follow,
            )
            for plan in plans
        ],
        lake_files=[file for file in files if file.path in used],
        fingerprints={
            uri: outcome.fingerprint for uri, outcome in read.items() if outcome.fingerprint is not None
        },
        rejects=[rejected_rows(uri, outcome) for uri, outcome in read.items()],
        read_again={
            uri: completion(outcome, is_parked=uri in parked)
            for uri, outcome in read_again.items()
            if uri not in moved
        },
        moved=list(moved.values()),
        completions={
            each.item.queue_id: completion(each.outcome, is_parked=each.item.source_uri in parked)
            | about_sealed([] if each.item.source_uri is None else sealed[each.item.source_uri])
            | dataset_read(each, moved)
            | {"run_id": str(run_id)}
            for each in work
        },
        figures=commit_figures(connection, work=work, plans=plans, scanned=scanned),
        metadata={"plans": [str(plan) for plan in plans]},
        rows_follow=rows_follow,
        leaving=subject.planned.leaving,
        left=subject.planned.left,
        swaps=subject.planned.swaps,
        parts=parts,
        parts_taken=superseded_deliveries(subject.waiting, subject.taken, work),
    )


def dataset_commit(
    connection: Connection,
    dataset: Dataset,
    plan: SubjectPlan,
    *,
    scanned: Mapping[tuple[str, str, int], ScannedSegment],
    has_rows: bool = True,
) -> DatasetCommit:
    """What a plan and the scans that it asked for change in one dataset; without rows where they follow."""
    results = [scanned[plan.dataset, plan.subject_key, unit.segment_us] for unit in plan.units]
    high_us = catalog.high_event_us(connection, plan.dataset, plan.subject_key)
    rereads = plan.rebuild is not None and plan.rebuild.before.parse != dataset.parse_version
    return DatasetCommit(
        dataset=plan.dataset,
        parse_version=dataset.parse_version,
        scan_version=dataset.scan_version,
        changes=plan.changes,
        segments=[result.segment for result in results],
        metrics=[row for result in results for row in result.metrics] if has_rows else [],
        rollups=[row for result in results for row in result.rollups] if has_rows else [],
        # Where everything is read again, no file is to blame.
        source_uris=[] if rereads else sorted({fragment.source_uri for fragment in plan.changes.counting}),
        restate_before_us=None if high_us is None else high_us - dataset.restate_after_us,
        restates=plan.restates,
        profile=_profile(plan, results),
        rebuild=plan.rebuild,
        store=plan.store,
        conflicts=_with_few_examples([row for result in results for row in result.conflicts]),
    )


def _moved_files(plans: Sequence[SubjectPlan]) -> dict[str, MovedFile]:
    """Files that a rebuild found to be about other subjects, and from where on they counted here."""
    return {
        uri: MovedFile(
            source_uri=uri,
            subject_key=subject_key,
            dataset=plan.dataset,
            first_us=min(
                (
                    fragment.first_us
                    for fragment in plan.changes.dropped
                    if fragment.source_uri == uri and fragment.state is FragmentState.ACTIVE
                ),
                default=None,
            ),
        )
        for plan in plans
        if plan.rebuild is not None
        for uri, subject_key in plan.rebuild.moved.items()
    }


def _profile(plan: SubjectPlan, results: Sequence[ScannedSegment]) -> Profile | None:
    """Where the folds of scanned segments are others than before; None where only ends of series can be compared."""
    compared = [unit for unit in plan.units if unit.former is not None]
    if plan.restates and plan.rebuild is not None and not compared:
        return None
    by_segment = {result.segment["segment_us"]: result for result in results}
    if any(by_segment[unit.segment_us].stretches is None for unit in compared):
        return None
    return Profile(
        segments=[result.segment["segment_us"] for result in results if result.stretches is not None],
        stretches=[row for result in results for row in result.stretches or ()],
    )


def _with_few_examples(conflicts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All pairs of files, the first of them with examples: a history that disagrees throughout needs no more."""
    room = MOST_EXAMPLES
    kept = []
    for row in conflicts:
        kept.append(row | {"examples": row["examples"][:room]})
        room -= len(kept[-1]["examples"])
    return kept


def conflicts_with(
    plan: SubjectPlan, scanned: Mapping[tuple[str, str, int], ScannedSegment]
) -> tuple[int, int]:
    """How many readings of the files that came disagree with others: those that count, and those that do not."""
    came = {fragment.source_uri for fragment in (*plan.changes.added, *plan.changes.released)}
    rows = [
        row
        for unit in plan.units
        for row in scanned[plan.dataset, plan.subject_key, unit.segment_us].conflicts
    ]
    won = sum(row["conflicts"] for row in rows if row["winner_uri"] in came)
    lost = sum(row["conflicts"] for row in rows if row["loser_uri"] in came and row["winner_uri"] not in came)
    return won, lost
