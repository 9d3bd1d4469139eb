"""From what was read to what has to change, with one look at the catalog for each subject and dataset."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from disarray.control import catalog, readings
from disarray.errors import RebuildBlockedError
from disarray.model.description.dataset import Store
from disarray.model.plan import StoredRows, SubjectPlan
from disarray.model.scan_units import plan_scans, with_former_segments
from disarray.model.segments import FIRST_US, LAST_US
from disarray.worker.passes.dataset_work import DatasetWork
from disarray.worker.passes.moves import Moves, leaving_files
from disarray.worker.passes.rebuilding import moved_files
from disarray.worker.passes.work_order import CopySubject

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from disarray.control.catalog import SegmentEntry
    from disarray.control.commits import LeavingFile
    from disarray.control.connections import Connection
    from disarray.control.resyncs import GenerationSwap
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.catalog_changes import CatalogChanges
    from disarray.model.description.dataset import Dataset
    from disarray.model.fragments import FragmentEntry
    from disarray.model.scan_units import ScanUnit
    from disarray.store.lake import Lake
    from disarray.worker.passes.contradictions import Contradiction
    from disarray.worker.passes.rebuilding import Rebuild, SubjectOfDataset
    from disarray.worker.passes.resyncing import StagedSwap
    from disarray.worker.passes.work import Work

# One pass copies about so many readings between stores: staged on disk, and locked for as long as that takes.
MOST_COPIED = 5_000_000


@dataclass(frozen=True, slots=True)
class SubjectPlans:
    """What the items of a subject change, a plan for each dataset; and the rebuilds that cannot be done now."""

    plans: list[SubjectPlan] = field(default_factory=list)
    leaving: list[LeavingFile] = field(
        default_factory=list
    )  # of other datasets and subjects, after the commit
    left: list[tuple[str, str]] = field(default_factory=list)  # dataset, uri: with the commit
    blocked: dict[SubjectOfDataset, RebuildBlockedError] = field(default_factory=dict)
    swaps: list[GenerationSwap] = field(default_factory=list)  # with the commit


def plan_subject(
    connection: Connection,
    subject_key: str,
    *,
    work: Sequence[Work],
    datasets: Mapping[str, Dataset],
    lake: Lake,
    rebuilds: Mapping[SubjectOfDataset, Rebuild] | None = None,
    read_again: Mapping[SubjectOfDataset, Mapping[str, ReadOutcome]] | None = None,
    moves: Moves | None = None,
    newest_us: Mapping[SubjectOfDataset, int | None] | None = None,
    swaps: Mapping[SubjectOfDataset, StagedSwap] | None = None,
    contradicting: Collection[Contradiction] = frozenset(),
) -> SubjectPlans:
    """What the items of one subject change; a rebuild that it waits for, and what has to leave, come with them.

    What `contradicting` names is parked.
    `newest_us` is what the horizon is counted from, where that is not the newest reading of now.
    """
    moves = moves or Moves()
    by_dataset: dict[str, list[Work]] = defaultdict(list)
    for each in work:
        if each.assignment.dataset is not None:
            by_dataset[each.assignment.dataset.name].append(each)
    planned = SubjectPlans()
    for name, group in by_dataset.items():
        key = name, subject_key
        own = DatasetWork(
            connection,
            datasets[name],
            subject_key,
            work=group,
            rebuild=(rebuilds or {}).get(key),
            read_again=(read_again or {}).get(key, {}),
            lake=lake,
            moved={
                uri
                for uri, homes in moves.homes.items()
                if any((home.dataset, home.subject_key) != key for home in homes)
            },
            leaving=moves.leaving.get(key, {}),
            decided=moves.decided.get(key, {}),
            newest_us=newest_us or {},
            swap=(swaps or {}).get(key),
            contradicting={(uri, segment) for where, uri, segment in contradicting if where == key},
        )
        try:
            plan = plan_dataset(own)
        except RebuildBlockedError as error:
            planned.blocked[key] = error
        else:
            planned.plans.extend([] if plan is None else [plan])
            planned.left.extend((name, uri) for uri in {**own.leaving, **own.decided})
            planned.swaps.extend([] if own.swap is None else [own.swap.swap])
    ready = [each for each in work if each.assignment.dataset_subject not in planned.blocked]
    planned.leaving.extend(leaving_files(ready, subject_key, moves))
    return planned


def plan_dataset(own: DatasetWork) -> SubjectPlan | None:
    """What to change; None where no item asks for anything."""
    changes = own.file_changes()
    if own.rebuild is None:
        copies = any(each.assignment.asks_for(CopySubject) for each in own.work)
        return _plan(own, own.ordinary_changes(changes), copies=copies) if changes or copies else None
    segments = catalog.load_segments(
        own.connection, own.dataset.name, own.subject_key, from_us=FIRST_US, to_us=LAST_US
    )
    besides = own.rebuild.segments_to_scan(segments)
    if not own.rebuild.reads_files:
        return _plan(own, own.ordinary_changes(changes), besides=besides)
    sealed = {segment.segment_us for segment in segments if segment.is_sealed}
    moved = moved_files(own.rebuild, own.outcomes)
    planned = own.reread_changes(
        [change for change in changes if change.source_uri not in moved], moved, sealed
    )
    return _plan(own, planned, besides=besides, moved=moved)


def _plan(
    own: DatasetWork,
    planned: CatalogChanges,
    *,
    besides: Sequence[int] = (),
    moved: Mapping[str, str] | None = None,
    copies: bool = False,
) -> SubjectPlan:
    name = own.dataset.name
    store = readings.store_of(own.connection, own.dataset)
    copied = _segments_to_copy(own.connection, own.dataset, own.subject_key, store) if copies else {}
    touched = sorted({*planned.touched_segments, *besides, *copied})
    units: tuple[ScanUnit, ...] = ()
    segments: list[SegmentEntry] = []
    active: list[FragmentEntry] = []
    if touched:
        segments = catalog.load_segments(
            own.connection, name, own.subject_key, from_us=touched[0], to_us=touched[-1]
        )
        active = catalog.load_segment_fragments(own.connection, name, own.subject_key, segments=touched)
        units = plan_scans(
            planned,
            active,
            {segment.segment_us: segment.revision for segment in segments},
            also=(*besides, *copied),
            arrived=partial(catalog.with_arrivals, own.connection, own.dataset),
        )
    in_units = set(touched)
    newest_us = catalog.high_event_us(own.connection, name, own.subject_key) if units else None
    restates = _restates(own, planned, newest_us)
    if restates and _is_comparable(own, segments):
        assert newest_us is not None
        before = own.dataset if own.rebuild is None else own.rebuild.before
        active = catalog.with_arrivals(own.connection, before, active)
        units = with_former_segments(
            units, active, {each.segment_us: each.digest for each in segments}, newest_us=newest_us
        )
    return SubjectPlan(
        dataset=name,
        subject_key=own.subject_key,
        changes=planned,
        units=units,
        rebuild=None if own.rebuild is None else replace(own.rebuild.step, moved=moved or {}),
        former=None if own.rebuild is None else own.rebuild.before,
        restates=restates,
        store=store,
        in_table={
            segment.segment_us: StoredRows(segment.readings, segment.table_digest)
            for segment in segments
            if segment.table_digest is not None and segment.segment_us in in_units
        },
        copied={start: digest for start, digest in copied.items() if start not in planned.touched_segments},
    )


def _restates(own: DatasetWork, planned: CatalogChanges, newest_us: int | None) -> bool:
    """Whether a value can change that is old enough to have been used."""
    if newest_us is None:
        return False
    changed_us = min((fragment.first_us for fragment in planned.counting), default=newest_us)
    return own.rebuild is not None or changed_us < newest_us - own.dataset.restate_after_us


def _is_comparable(own: DatasetWork, segments: Sequence[SegmentEntry]) -> bool:
    """Whether each segment has a former self with readings; else only the ends of series can be compared."""
    return own.rebuild is None or (
        own.rebuild.before.segment_length_us == own.dataset.segment_length_us
        and not any(segment.is_sealed for segment in segments)
    )


def _segments_to_copy(
    connection: Connection, dataset: Dataset, subject_key: str, store: Store
) -> dict[int, str]:
    """The digests of the first segments whose readings are not where the store says; others wait for their turn."""
    found: dict[int, str] = {}
    budget = MOST_COPIED
    entries = [
        entry
        for entry in catalog.load_segments(
            connection, dataset.name, subject_key, from_us=FIRST_US, to_us=LAST_US
        )
        if (entry.table_digest is None) == (store is Store.TIMESCALE)
    ]
    active = catalog.load_segment_fragments(
        connection, dataset.name, subject_key, segments=[entry.segment_us for entry in entries]
    )
    # A segment whose fragments are gone has nothing to be made from: scanned, it would seem empty.
    kept = {fragment.segment_us for fragment in active}
    for entry in entries:
        if entry.segment_us in kept and budget > 0:
            found[entry.segment_us] = entry.digest
            budget -= entry.readings
    return found
