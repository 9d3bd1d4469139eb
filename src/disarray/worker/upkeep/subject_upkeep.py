"""The housekeeping of claimed subjects: old readings go, small fragments of cold segments are merged."""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from disarray.control import catalog, claim_ends, housekeeping
from disarray.control.housekeeping import Compaction
from disarray.engine.jobs.compact_job import CompactedSegment, SegmentMerge, SubjectMerge, compact_subjects
from disarray.errors import LeaseLostError, SegmentDiffersError, StalePlanError
from disarray.failpoints import failpoint
from disarray.model.compaction import count_row_groups, pack_groups, plan_compaction
from disarray.model.fragments import FragmentState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disarray.control.connections import Connection
    from disarray.control.housekeeping import ColdSegment
    from disarray.control.queue import QueueId, QueueItem
    from disarray.engine.jobs.compact_job import CompactedFile
    from disarray.model.description.dataset import Dataset
    from disarray.worker.workplace import Workplace

log = logging.getLogger(__name__)

# What one round of one subject takes on: a commit of some seconds, and leases are renewed in between.
ROUND_READINGS = 5_000_000
ROUND_SEGMENTS = 500
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSubject:
    """What was done to one subject. Its numbers are what they were."""

    subject_key: str
    segments_sealed: int = 0
    segments_compacted: int = 0
    fragments_before: int = 0
    fragments_after: int = 0
    row_groups_before: int = 0
    row_groups_after: int = 0
    segments_left: int = 0  # that lie in no fewer row groups when they are compacted: nothing was rewritten


@dataclass(slots=True)
class _SubjectRun:
    """One item on its way: what is done for its subject, and what must not be tried again."""

    item: QueueItem
    kept: KeptSubject
    finished: set[tuple[str, int]]
    failures: dict[tuple[str, int], str]
    stale: int = 0
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class _Planned:
    run: _SubjectRun
    cold: dict[int, ColdSegment]
    merge: SubjectMerge


@dataclass(frozen=True, slots=True)
class KeepingReport:
    """What became of the items of a batch."""

    completed: tuple[QueueId, ...]
    failed: dict[QueueId, str]
    lost_subjects: tuple[str, ...]
    kept: tuple[KeptSubject, ...]


def keep_subjects(
    workplace: Workplace, items: Sequence[QueueItem], *, on_step: Callable[[], None]
) -> KeepingReport:
    """Seal and compact the subjects of these items. Every step is a commit of its own: a crash leaves the rest."""
    runs = [_SubjectRun(item, KeptSubject(subject_key=item.subject_key), set(), {}) for item in items]
    for run in runs:
        _guarded(run, partial(_seal, workplace, run))
        on_step()
    while planned := [plan for run in runs if not run.is_lost for plan in _plan(workplace, run)]:
        results = _compact(workplace, planned)
        on_step()
        for each, files in zip(planned, results, strict=True):
            _guarded(each.run, partial(_commit, workplace, each, files))
            on_step()
    completed: list[QueueId] = []
    failed: dict[QueueId, str] = {}
    for run in runs:
        _guarded(run, partial(_end, workplace, run, completed, failed))
    return KeepingReport(
        completed=tuple(completed),
        failed=failed,
        lost_subjects=tuple(run.item.subject_key for run in runs if run.is_lost),
        kept=tuple(run.kept for run in runs if run.kept != KeptSubject(subject_key=run.kept.subject_key)),
    )


def _guarded(run: _SubjectRun, step: Callable[[], None]) -> None:
    if run.is_lost:
        return
    try:
        step()
    except LeaseLostError as error:
        log.warning("%s", error)
        run.is_lost = True


def _seal(workplace: Workplace, run: _SubjectRun) -> None:
    with workplace.pool.connection() as connection:
        for dataset in workplace.datasets.values():
            expired = housekeeping.list_expired_segments(
                connection, dataset, subject_key=run.item.subject_key
            )
            if expired:
                sealed = housekeeping.seal_segments(
                    connection,
                    uuid.uuid4(),
                    run.item.subject_key,
                    workplace.holder,
                    fence=run.item.fence,
                    dataset=dataset.name,
                    segments=[segment.segment_us for segment in expired],
                )
                failpoint("seal.after", connection, about=run.item.subject_key)
                run.kept = replace(run.kept, segments_sealed=run.kept.segments_sealed + sealed)


def _plan(workplace: Workplace, run: _SubjectRun) -> list[_Planned]:
    planned = []
    policy = workplace.housekeeping
    with workplace.pool.connection() as connection:
        for dataset in workplace.datasets.values():
            cold = [
                segment
                for segment in housekeeping.list_cold_segments(
                    connection,
                    dataset,
                    cold_after=policy.cold_after,
                    fragments=policy.compact_fragments,
                    readings=policy.compact_readings,
                    subject_key=run.item.subject_key,
                )
                if (dataset.name, segment.segment_us) not in run.finished
            ]
            chosen = {segment.segment_us: segment for segment in _one_round(cold)}
            merges, left = _merges(connection, dataset, run.item.subject_key, list(chosen))
            run.finished |= {(dataset.name, segment_us) for segment_us in left}
            run.kept = replace(run.kept, segments_left=run.kept.segments_left + len(left))
            if merges:
                merge = SubjectMerge(
                    dataset=dataset,
                    subject_key=run.item.subject_key,
                    run_id=uuid.uuid4(),
                    segments=tuple(merges),
                )
                planned.append(_Planned(run, chosen, merge))
    return planned


def _one_round(cold: Sequence[ColdSegment]) -> list[ColdSegment]:
    chosen: list[ColdSegment] = []
    readings = 0
    for segment in cold[:ROUND_SEGMENTS]:
        if chosen and readings + segment.readings > ROUND_READINGS:
            break
        chosen.append(segment)
        readings += segment.readings
    return chosen


def _merges(
    connection: Connection, dataset: Dataset, subject_key: str, segments: Sequence[int]
) -> tuple[list[SegmentMerge], list[int]]:
    """What is to be merged, and the segments of which nothing can be gained."""
    by_segment = defaultdict(list)
    kept = catalog.load_kept_fragments(connection, dataset.name, subject_key, segments=segments)
    for fragment in catalog.with_arrivals(connection, dataset, kept):
        by_segment[fragment.segment_us].append(fragment)
    merges, left = [], []
    for segment_us, fragments in sorted(by_segment.items()):
        groups = plan_compaction(fragments)
        packs = pack_groups(groups)
        if len(packs) >= count_row_groups(each for group in groups for each in group.fragments):
            left.append(segment_us)
            continue
        active = tuple(each for each in fragments if each.state is FragmentState.ACTIVE)
        merges.append(SegmentMerge(segment_us=segment_us, fragments=active, packs=packs))
    return merges, left


def _compact(workplace: Workplace, planned: Sequence[_Planned]) -> list[list[CompactedFile]]:
    try:
        return compact_subjects(workplace.runner, [each.merge for each in planned], lake=workplace.lake)
    except Exception as error:
        # Whatever it was, the files of the batch are committed already: it must not look as if they had failed.
        log.exception("a compaction of %d subjects failed", len(planned))
        for each in planned:
            dataset = each.merge.dataset.name
            keys = [(dataset, segment.segment_us) for segment in each.merge.segments]
            each.run.failures |= dict.fromkeys(keys, f"{type(error).__name__}: {error}")
            each.run.finished |= set(keys)
        return [[] for _ in planned]


def _commit(workplace: Workplace, planned: _Planned, files: Sequence[CompactedFile]) -> None:
    run, dataset = planned.run, planned.merge.dataset
    for file in files:
        run.failures |= {(dataset.name, segment): text for segment, text in file.failures.items()}
    run.finished |= set(run.failures)
    done: list[CompactedSegment] = [segment for file in files for segment in file.segments]
    if not done:
        return
    compaction = Compaction(
        run_id=planned.merge.run_id,
        subject_key=run.item.subject_key,
        fence=run.item.fence,
        dataset=dataset,
        segments=[
            (segment.segment_us, planned.cold[segment.segment_us].revision, segment.digest)
            for segment in done
        ],
        added=[fragment for segment in done for fragment in segment.added],
        dropped=[fragment for segment in done for fragment in segment.dropped],
        lake_files=[
            replace(file.file, path=workplace.lake.relative(file.file.path))
            for file in files
            if file.file is not None and file.segments
        ],
    )
    keys = {(dataset.name, segment.segment_us) for segment in done}
    try:
        with workplace.pool.connection() as connection:
            failpoint("compact.written", connection, about=run.item.subject_key)
            housekeeping.compact_segments(connection, compaction, workplace.holder)
            failpoint("compact.after_commit", connection, about=run.item.subject_key)
    except SegmentDiffersError as error:
        run.failures |= dict.fromkeys(keys, str(error))
    except StalePlanError:
        run.stale += 1
        if run.stale == _ATTEMPTS:
            raise
        return
    else:
        run.kept = replace(
            run.kept,
            segments_compacted=run.kept.segments_compacted + len(done),
            fragments_before=run.kept.fragments_before + len(compaction.dropped),
            fragments_after=run.kept.fragments_after + len(compaction.added),
            row_groups_before=run.kept.row_groups_before + count_row_groups(compaction.dropped),
            row_groups_after=run.kept.row_groups_after + count_row_groups(compaction.added),
        )
    run.finished |= keys


def _end(
    workplace: Workplace, run: _SubjectRun, completed: list[QueueId], failed: dict[QueueId, str]
) -> None:
    with workplace.pool.connection() as connection:
        if run.failures:
            message = next(iter(run.failures.values()))
            failed[run.item.queue_id] = message
            claim_ends.fail_item(
                connection, run.item.queue_id, workplace.holder, error_message=message, is_permanent=True
            )
        else:
            claim_ends.complete_item(connection, run.item.queue_id, workplace.holder)
            completed.append(run.item.queue_id)
