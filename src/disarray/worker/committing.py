"""The end of a pass: one commit for each subject, and what became of every item."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from disarray.control import catalog, commits, queue, subjects
from disarray.control.commits import DatasetCommit, LakeFile, RejectedRows, SubjectCommit
from disarray.control.files import Reason
from disarray.control.retries import call_idempotent
from disarray.errors import DatabaseUnavailableError, LeaseLostError
from disarray.kernels.outcome import ReadStatus
from disarray.model.plan import FragmentState
from disarray.model.segments import datetime_of
from disarray.worker.report import CommittedPlan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata
    from disarray.engine.read_job import ReadJobResult
    from disarray.engine.scan_job import ScannedSegment
    from disarray.model.dataset import Dataset
    from disarray.model.plan import SubjectPlan
    from disarray.worker.work import Work, Workplace

log = logging.getLogger(__name__)


def commit_work(
    place: Workplace,
    *,
    run_id: UUID,
    work: Sequence[Work],
    plans: Sequence[SubjectPlan],
    scanned: Mapping[tuple[str, str, int], ScannedSegment],
    job: ReadJobResult,
) -> list[CommittedPlan]:
    """Make all that was found out about one subject visible, and end its items; what that changed, by plan."""
    with place.pool.connection() as connection:
        commit = _subject_commit(connection, place, run_id, work, plans, scanned, job)
    try:
        with place.pool.connection() as connection, connection.transaction():
            changes = commits.commit_subject(connection, commit, place.holder)
            if any(Reason.RECONCILE in each.assignment.reasons for each in work):
                subjects.reconcile_subject(connection, commit.subject_key, place.holder)
        return [CommittedPlan(plan, change) for plan, change in zip(plans, changes, strict=True)]
    except DatabaseUnavailableError:
        # The reply was lost, not necessarily the commit. Doing it again could do it twice: ask by run id.
        if not call_idempotent(
            place.pool, lambda connection: commits.is_committed(connection, run_id, commit.subject_key)
        ):
            raise
        log.info("the reply to the commit of %s was lost, and it took effect", commit.subject_key)
        return []


def give_back(place: Workplace, work: Work, message: str) -> None:
    """End an item that could not be done: it waits for another try, or becomes a dead letter."""
    try:
        with place.pool.connection() as connection:
            queue.fail_item(
                connection,
                work.item.queue_id,
                place.holder,
                error_message=message,
                is_permanent=not work.may_succeed_later,
            )
    except LeaseLostError as error:
        log.warning("%s", error)


def _subject_commit(
    connection: Connection,
    place: Workplace,
    run_id: UUID,
    work: Sequence[Work],
    plans: Sequence[SubjectPlan],
    scanned: Mapping[tuple[str, str, int], ScannedSegment],
    job: ReadJobResult,
) -> SubjectCommit:
    added = [fragment for plan in plans for fragment in plan.changes.added]
    parked = {fragment.source_uri for fragment in added if fragment.state is FragmentState.PARKED}
    used = {fragment.path for fragment in added}
    files = {place.lake.relative(file.path): file for file in job.files}
    subject_key = work[0].item.subject_key
    return SubjectCommit(
        run_id=run_id,
        subject_key=subject_key,
        fence=work[0].item.fence,
        datasets=[
            dataset_commit(connection, place.datasets[plan.dataset], plan, scanned=scanned) for plan in plans
        ],
        lake_files=[
            LakeFile(path=path, bytes=file.size, checksum=file.checksum)
            for path, file in files.items()
            if path in used
        ],
        fingerprints={
            each.item.source_uri: each.outcome.fingerprint
            for each in work
            if each.is_read and each.outcome is not None and each.outcome.fingerprint is not None
        },
        rejects=[_rejected_rows(each) for each in work if each.is_read],
        completions={
            each.item.queue_id: _completion(each, is_parked=each.item.source_uri in parked) for each in work
        },
        metadata={"plans": [str(plan) for plan in plans]},
    )


def dataset_commit(
    connection: Connection,
    dataset: Dataset,
    plan: SubjectPlan,
    *,
    scanned: Mapping[tuple[str, str, int], ScannedSegment],
) -> DatasetCommit:
    """What a plan and the scans that it asked for change in one dataset."""
    results = [scanned[plan.dataset, plan.subject_key, unit.segment_us] for unit in plan.units]
    high_us = catalog.high_event_us(connection, plan.dataset, plan.subject_key)
    return DatasetCommit(
        dataset=plan.dataset,
        parse_version=dataset.parse_version,
        scan_version=dataset.scan_version,
        changes=plan.changes,
        segments=[result.segment for result in results],
        metrics=[row for result in results for row in result.metrics],
        rollups=[row for result in results for row in result.rollups],
        source_uris=sorted({fragment.source_uri for fragment in plan.changes.counting}),
        changed_from_us=min((fragment.first_us for fragment in plan.changes.counting), default=None),
        restate_before_us=None if high_us is None else high_us - dataset.restate_after_us,
    )


def _rejected_rows(work: Work) -> RejectedRows:
    assert work.outcome is not None
    return RejectedRows(
        source_uri=work.item.source_uri,
        from_position=work.outcome.seam_position,
        rows=[
            {
                "position": reject.offset,
                "line": reject.line,
                "reason": reject.reason.value,
                "detail": reject.column or "",
                "sample": reject.sample,
            }
            for reject in work.outcome.rejects
        ],
    )


def _completion(work: Work, *, is_parked: bool) -> Metadata:
    """What is kept with the file; one that has parked fragments from before stays parked whatever is said here."""
    outcome = work.outcome
    if outcome is None or outcome.fingerprint is None:
        return {}
    print_ = outcome.fingerprint
    metadata: Metadata = {
        "outcome": "parked" if is_parked or outcome.status is ReadStatus.PARKED else "processed",
        "change": outcome.change.value,
        "bytes": print_.size,
        "lines": {
            "seen": print_.counts.seen,
            "kept": print_.counts.kept,
            "rejected": print_.counts.rejected,
            "blank": print_.counts.blank,
            "preamble": print_.counts.preamble,
            "waiting": print_.counts.waiting,
        },
        "rejected": {reason.value: count for reason, count in outcome.rejects_by_reason.items()},
    }
    if outcome.message:
        metadata["message"] = outcome.message
    if outcome.status is ReadStatus.PARKED:
        # The version that is in stays the one that is known.
        return metadata
    metadata["content_hash"] = print_.content_hash
    metadata["parse_version"] = print_.parse_version
    if print_.first_us is not None and print_.last_us is not None:
        metadata["logical_start"] = datetime_of(print_.first_us).isoformat()
        metadata["logical_end"] = datetime_of(print_.last_us).isoformat()
    return metadata
