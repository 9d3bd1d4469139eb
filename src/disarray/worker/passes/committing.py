"""The end of a pass: one commit for each subject, and what became of every item."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from disarray.control import catalog, commits, queue, subjects
from disarray.control.commits import (
    DatasetCommit,
    LakeFile,
    MovedFile,
    Profile,
    RejectedRows,
    SubjectCommit,
)
from disarray.control.connections import transaction
from disarray.control.queue import Failure
from disarray.control.retries import call_idempotent
from disarray.control.timings import TIMINGS
from disarray.errors import DatabaseUnavailableError, LeaseLostError
from disarray.failpoints import failpoint
from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.plan import FragmentState
from disarray.model.segments import datetime_of
from disarray.worker.passes.counting import commit_figures
from disarray.worker.passes.report import CommittedPlan
from disarray.worker.passes.rows import put_parts, write_rows
from disarray.worker.passes.work_order import ReconcileSubject

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from uuid import UUID

    from disarray.control.commits import LeavingFile
    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata
    from disarray.engine.jobs.read_job import ReadJobResult
    from disarray.engine.jobs.scan_job import ScannedSegment
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.description.dataset import Dataset
    from disarray.model.plan import FragmentEntry, SubjectPlan
    from disarray.worker.passes.work import Work, Workplace

log = logging.getLogger(__name__)

# Of readings that disagree, so many at most are shown with their values for each commit: some hundred kilobytes.
MOST_EXAMPLES = 1_000


def commit_work(
    place: Workplace,
    *,
    run_id: UUID,
    work: Sequence[Work],
    plans: Sequence[SubjectPlan],
    scanned: Mapping[tuple[str, str, int], ScannedSegment],
    job: ReadJobResult,
    read_again: Mapping[str, ReadOutcome] | None = None,
    leaving: Sequence[LeavingFile] = (),
    left: Sequence[tuple[str, str]] = (),
    on_step: Callable[[], None] = lambda: None,
) -> list[CommittedPlan]:
    """Make all that was found out about one subject visible, and end its items; what that changed, by plan.

    `read_again` are files of a rebuild that have no item; `left` is what had to leave this subject and does, and
    `leaving` what has to leave others because of this commit. Whatever Python has to prepare is prepared before the
    transaction begins: while it is open it holds the subject, and the server ends one that idles.
    """
    with place.pool.connection() as connection:
        commit = replace(
            _subject_commit(connection, place, run_id, work, plans, scanned, job, read_again or {}),
            leaving=leaving,
            left=left,
        )
        prepared = commits.prepare_commit(commit)
        failpoint("commit.before_begin", connection, about=commit.subject_key)
    try:
        with (
            place.pool.connection() as connection,
            TIMINGS.timed("commit"),
            transaction(connection),
        ):
            failpoint("commit.begun", connection, about=commit.subject_key)
            for plan in plans:
                write_rows(connection, place, plan, scanned=scanned, fence=commit.fence)
            changes = commits.commit_subject(
                connection, prepared, place.holder, max_shift_rows=place.max_shift_rows
            )
            if commit.rows_follow:
                for plan, change in zip(plans, changes, strict=True):
                    put_parts(
                        connection,
                        commit,
                        plan,
                        changed_segments=change.changed_segments or (),
                        scanned=scanned,
                        on_step=on_step,
                    )
                changes = commits.finish_commit(
                    connection, prepared, changes, max_shift_rows=place.max_shift_rows
                )
            failpoint("commit.stated", connection, about=commit.subject_key)
            if any(each.assignment.asks_for(ReconcileSubject) for each in work):
                with TIMINGS.timed("reconcile"):
                    failpoint("reconcile.before", connection, about=commit.subject_key)
                    subjects.reconcile_subject(connection, commit.subject_key, place.holder)
                    failpoint("reconcile.after", connection, about=commit.subject_key)
            failpoint("commit.before_commit", connection, about=commit.subject_key)
        failpoint("commit.after_commit", about=commit.subject_key)
        return [
            CommittedPlan(plan, change, conflicts_with(plan, scanned))
            for plan, change in zip(plans, changes, strict=True)
        ]
    except DatabaseUnavailableError:
        # The reply was lost, not necessarily the commit. Doing it again could do it twice: ask by run id.
        failpoint("commit.settling", about=commit.subject_key)
        if not call_idempotent(
            place.pool, lambda connection: commits.is_committed(connection, run_id, commit.subject_key)
        ):
            raise
        log.info("the reply to the commit of %s was lost, and it took effect", commit.subject_key)
        return []


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


def give_back(
    place: Workplace, failed: Sequence[tuple[Work, str]], *, blocked_seconds: int | None = None
) -> None:
    """End items that could not be done, each with its message: they wait for another try, or become dead letters.

    Those that are blocked by something else wait so long, uncounted, and are never dead letters for that.
    """
    if not failed:
        return
    by_subject: dict[str, list[Failure]] = defaultdict(list)
    for work, message in failed:
        failure = Failure(
            work.item.queue_id, message, is_permanent=not work.may_succeed_later and blocked_seconds is None
        )
        by_subject[work.item.subject_key].append(failure)
    together = [failure for group in by_subject.values() for failure in group]
    if not _are_given_back(place, together, blocked_seconds) and len(by_subject) > 1:
        # One subject that was lost meanwhile took the others with it: now each for itself.
        for group in by_subject.values():
            _are_given_back(place, group, blocked_seconds)


def _are_given_back(place: Workplace, failures: Sequence[Failure], blocked_seconds: int | None) -> bool:
    try:
        with place.pool.connection() as connection:
            failpoint("fail.before", connection)
            queue.fail_items(
                connection,
                failures,
                place.holder,
                retry_delay_seconds=blocked_seconds,
                is_counted=blocked_seconds is None,
            )
            failpoint("fail.after", connection)
    except LeaseLostError as error:
        log.warning("%s", error)
        return False
    return True


def _subject_commit(
    connection: Connection,
    place: Workplace,
    run_id: UUID,
    work: Sequence[Work],
    plans: Sequence[SubjectPlan],
    scanned: Mapping[tuple[str, str, int], ScannedSegment],
    job: ReadJobResult,
    read_again: Mapping[str, ReadOutcome],
) -> SubjectCommit:
    added = [fragment for plan in plans for fragment in plan.changes.added]
    parked = {fragment.source_uri for fragment in added if fragment.state is FragmentState.PARKED}
    sealed: dict[str, list[FragmentEntry]] = defaultdict(list)
    for plan in plans:
        for fragment in plan.changes.sealed:
            sealed[fragment.source_uri].append(fragment)
    used = {fragment.path for fragment in added}
    files = {place.lake.relative(file.path): file for file in job.files}
    subject_key = work[0].item.subject_key
    read = {
        **{each.item.file_uri: each.outcome for each in work if each.is_read and each.outcome is not None},
        **read_again,
    }
    moved = {
        uri: MovedFile(
            source_uri=uri,
            subject_key=subject,
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
        for uri, subject in plan.rebuild.moved.items()
    }
    read = {uri: outcome for uri, outcome in read.items() if uri not in moved}
    rows_follow = any(
        scanned[plan.dataset, plan.subject_key, unit.segment_us].parts is not None
        for plan in plans
        for unit in plan.units
    )
    return SubjectCommit(
        run_id=run_id,
        subject_key=subject_key,
        fence=work[0].item.fence,
        datasets=[
            dataset_commit(
                connection,
                place.datasets[plan.dataset],
                plan,
                scanned=scanned,
                has_rows=not rows_follow,
            )
            for plan in plans
        ],
        lake_files=[
            LakeFile(path=path, bytes=file.size, checksum=file.checksum)
            for path, file in files.items()
            if path in used
        ],
        fingerprints={
            uri: outcome.fingerprint for uri, outcome in read.items() if outcome.fingerprint is not None
        },
        rejects=[_rejected_rows(uri, outcome) for uri, outcome in read.items()],
        read_again={
            uri: _completion(outcome, is_parked=uri in parked)
            for uri, outcome in read_again.items()
            if uri not in moved
        },
        moved=list(moved.values()),
        completions={
            each.item.queue_id: _completion(each.outcome, is_parked=each.item.source_uri in parked)
            | _about_sealed([] if each.item.source_uri is None else sealed[each.item.source_uri])
            | _dataset_read(each, moved)
            | {"run_id": str(run_id)}
            for each in work
        },
        figures=commit_figures(connection, work=work, plans=plans, scanned=scanned),
        metadata={"plans": [str(plan) for plan in plans]},
        rows_follow=rows_follow,
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


def _rejected_rows(source_uri: str, outcome: ReadOutcome) -> RejectedRows:
    return RejectedRows(
        source_uri=source_uri,
        from_position=outcome.seam_position,
        rows=[
            {
                "position": reject.offset,
                "line": reject.line,
                "reason": reject.reason.value,
                "detail": reject.column or "",
                "sample": reject.sample,
            }
            for reject in outcome.rejects
        ],
    )


def _about_sealed(fragments: Sequence[FragmentEntry]) -> Metadata:
    """What is kept with a file that was changed or removed after segments that it counted in were sealed."""
    if not fragments:
        return {}
    segments = {fragment.segment_us for fragment in fragments}
    readings = sum(fragment.readings for fragment in fragments)
    return {
        "sealed": {"segments": len(segments), "readings": readings},
        "message": f"{readings} readings in {len(segments)} sealed segments stay as they were counted",
    }


def _dataset_read(work: Work, moved: Container[str]) -> Metadata:
    """The dataset that a file was read for: with the subject of its item, that is where it belongs from now on."""
    dataset, outcome = work.assignment.dataset, work.outcome
    if dataset is None or outcome is None or work.item.source_uri in moved:
        return {}
    is_in = outcome.status in (ReadStatus.READ, ReadStatus.UNCHANGED)
    return {"dataset": dataset.name} if is_in else {}


def _completion(outcome: ReadOutcome | None, *, is_parked: bool) -> Metadata:
    """What is kept with the file; one that has parked fragments from before stays parked whatever is said here."""
    if outcome is None or outcome.fingerprint is None:
        return {}
    print_ = outcome.fingerprint
    is_version_parked = outcome.status is ReadStatus.PARKED
    metadata: Metadata = {
        "outcome": "parked" if is_parked or is_version_parked else "processed",
        "change": outcome.change.value,
    }
    version: Metadata = {
        "bytes": print_.size,
        "lines": {
            "seen": print_.counts.seen,
            "kept": print_.counts.kept,
            "rejected": print_.counts.rejected,
            "blank": print_.counts.blank,
            "preamble": print_.counts.preamble,
            "waiting": print_.counts.waiting,
        },
    }
    if outcome.status is not ReadStatus.UNCHANGED:
        version["rejected"] = {reason.value: count for reason, count in outcome.rejects_by_reason.items()}
    if outcome.message:
        metadata["message"] = outcome.message
    if is_version_parked:
        # The version that is in stays the one that is known.
        metadata["parked_hash"] = print_.content_hash
        metadata["parked_version"] = version
        return metadata
    metadata |= version
    metadata["content_hash"] = print_.content_hash
    metadata["parse_version"] = print_.parse_version
    if print_.first_us is not None and print_.last_us is not None:
        metadata["logical_start"] = datetime_of(print_.first_us).isoformat()
        metadata["logical_end"] = datetime_of(print_.last_us).isoformat()
    return metadata
