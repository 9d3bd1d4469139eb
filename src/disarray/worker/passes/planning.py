"""From what was read to what has to change, with one look at the catalog for each subject and dataset."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from disarray.control import catalog, readings
from disarray.errors import RebuildBlockedError
from disarray.model.description.dataset import Store
from disarray.model.plan import (
    CatalogChanges,
    FileChange,
    FragmentState,
    StoredRows,
    SubjectPlan,
    plan_changes,
    plan_scans,
    with_former_segments,
)
from disarray.model.rebuild_plan import plan_reread
from disarray.model.segments import FIRST_US, LAST_US
from disarray.worker.passes.assignment import file_change, read_change
from disarray.worker.passes.moves import Moves, leaving_files
from disarray.worker.passes.rebuilding import moved_files, refuse_lost_readings
from disarray.worker.passes.restoring import load_withdrawn
from disarray.worker.passes.sharing import share_fragments
from disarray.worker.passes.work_order import CopySubject, takes_file_as_it_is

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from disarray.control.catalog import SegmentEntry
    from disarray.control.commits import LeavingFile
    from disarray.control.connections import Connection
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.description.dataset import Dataset
    from disarray.model.fingerprints import Fingerprint
    from disarray.model.plan import FragmentEntry, ScanUnit
    from disarray.store.lake import Lake
    from disarray.worker.passes.contradictions import Contradiction
    from disarray.worker.passes.rebuilding import Rebuild, SubjectOfDataset
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
        place = name, subject_key
        planning = _Planning(
            connection,
            datasets[name],
            subject_key,
            work=group,
            rebuild=(rebuilds or {}).get(place),
            read_again=(read_again or {}).get(place, {}),
            lake=lake,
            moved={
                uri
                for uri, homes in moves.homes.items()
                if any((home.dataset, home.subject_key) != place for home in homes)
            },
            leaving=moves.leaving.get(place, {}),
            newest_us=newest_us or {},
            contradicting={(uri, segment) for where, uri, segment in contradicting if where == place},
        )
        try:
            plan = planning.plan()
        except RebuildBlockedError as error:
            planned.blocked[place] = error
        else:
            planned.plans.extend([] if plan is None else [plan])
            planned.left.extend((name, uri) for uri in planning.leaving)
    ready = [each for each in work if each.assignment.place not in planned.blocked]
    planned.leaving.extend(leaving_files(ready, subject_key, moves))
    return planned


@dataclass(frozen=True)
class _Planning:
    """One dataset of one subject."""

    connection: Connection
    dataset: Dataset
    subject_key: str
    work: Sequence[Work]
    rebuild: Rebuild | None
    read_again: Mapping[str, ReadOutcome]  # of files without an item
    lake: Lake
    moved: Collection[str]  # files that have readings elsewhere
    leaving: Mapping[str, int | None]  # uri → the generation that counts elsewhere now, None for all of them
    newest_us: Mapping[SubjectOfDataset, int | None]
    contradicting: Collection[tuple[str, int]]  # files and segments

    def plan(self) -> SubjectPlan | None:
        """What to change; None where no item asks for anything."""
        changes = [
            change
            for change in (file_change(each.assignment, each.outcome, self.lake) for each in self.work)
            if change is not None
        ]
        changes = self._with_origins(changes) + self._departures(changes)
        if self.rebuild is None:
            copies = any(each.assignment.asks_for(CopySubject) for each in self.work)
            return self._plan(self._ordinary_changes(changes), copies=copies) if changes or copies else None
        segments = catalog.load_segments(
            self.connection, self.dataset.name, self.subject_key, from_us=FIRST_US, to_us=LAST_US
        )
        besides = self.rebuild.segments_to_scan(segments)
        if not self.rebuild.reads_files:
            return self._plan(self._ordinary_changes(changes), besides=besides)
        sealed = {segment.segment_us for segment in segments if segment.is_sealed}
        outcomes = {
            **self.read_again,
            **{each.item.file_uri: each.outcome for each in self.work if each.outcome is not None},
        }
        moved = moved_files(self.rebuild, outcomes)
        planned = self._reread_changes(
            [change for change in changes if change.source_uri not in moved], outcomes, moved, sealed
        )
        return self._plan(planned, besides=besides, moved=moved)

    def _plan(
        self,
        planned: CatalogChanges,
        *,
        besides: Sequence[int] = (),
        moved: Mapping[str, str] | None = None,
        copies: bool = False,
    ) -> SubjectPlan:
        name = self.dataset.name
        store = readings.store_of(self.connection, self.dataset)
        copied = _segments_to_copy(self.connection, self.dataset, self.subject_key, store) if copies else {}
        touched = sorted({*planned.touched_segments, *besides, *copied})
        units: tuple[ScanUnit, ...] = ()
        segments: list[SegmentEntry] = []
        active: list[FragmentEntry] = []
        if touched:
            segments = catalog.load_segments(
                self.connection, name, self.subject_key, from_us=touched[0], to_us=touched[-1]
            )
            active = catalog.load_segment_fragments(self.connection, name, self.subject_key, segments=touched)
            units = plan_scans(
                planned,
                active,
                {segment.segment_us: segment.revision for segment in segments},
                also=(*besides, *copied),
                arrived=partial(catalog.with_arrivals, self.connection, self.dataset),
            )
        in_units = set(touched)
        newest_us = catalog.high_event_us(self.connection, name, self.subject_key) if units else None
        restates = self._restates(planned, newest_us)
        if restates and self._is_comparable(segments):
            assert newest_us is not None
            before = self.dataset if self.rebuild is None else self.rebuild.before
            active = catalog.with_arrivals(self.connection, before, active)
            units = with_former_segments(
                units, active, {each.segment_us: each.digest for each in segments}, newest_us=newest_us
            )
        return SubjectPlan(
            dataset=name,
            subject_key=self.subject_key,
            changes=planned,
            units=units,
            rebuild=None if self.rebuild is None else replace(self.rebuild.step, moved=moved or {}),
            former=None if self.rebuild is None else self.rebuild.before,
            restates=restates,
            store=store,
            in_table={
                segment.segment_us: StoredRows(segment.readings, segment.table_digest)
                for segment in segments
                if segment.table_digest is not None and segment.segment_us in in_units
            },
            copied={
                start: digest for start, digest in copied.items() if start not in planned.touched_segments
            },
        )

    def _with_origins(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """The changes, each with what its file says elsewhere, where all of it was read for this subject now."""
        moved = [
            change.source_uri
            for change in changes
            if change.seam_position == 0 and change.source_uri in self.moved
        ]
        if not moved:
            return list(changes)
        placed = catalog.load_file_fragments(self.connection, moved)
        here = self.dataset.name, self.subject_key
        return [
            replace(
                change,
                moved_from=tuple(
                    fragment
                    for place, fragments in placed.get(change.source_uri, {}).items()
                    if place != here
                    for fragment in fragments
                    if fragment.generation == change.generation
                ),
            )
            for change in changes
        ]

    def _departures(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Files that count elsewhere now, unless one came back meanwhile and what it said is replaced."""
        replaced = {
            (change.source_uri, generation)
            for change in changes
            if change.is_removed or change.seam_position == 0
            for generation in (change.generation, None)
        }
        return [
            FileChange(
                source_uri=uri, generation=generation or 0, seam_position=0, is_leaving=generation is None
            )
            for uri, generation in self.leaving.items()
            if (uri, generation) not in replaced
        ]

    def _restates(self, planned: CatalogChanges, newest_us: int | None) -> bool:
        """Whether a value can change that is old enough to have been used."""
        if newest_us is None:
            return False
        changed_us = min((fragment.first_us for fragment in planned.counting), default=newest_us)
        return self.rebuild is not None or changed_us < newest_us - self.dataset.restate_after_us

    def _is_comparable(self, segments: Sequence[SegmentEntry]) -> bool:
        """Whether each segment has a former self with readings; else only the ends of series can be compared."""
        return self.rebuild is None or (
            self.rebuild.before.segment_us == self.dataset.segment_us
            and not any(segment.is_sealed for segment in segments)
        )

    def _ordinary_changes(self, changes: Sequence[FileChange]) -> CatalogChanges:
        here = self.dataset.name, self.subject_key
        placed = catalog.load_file_fragments(self.connection, [change.source_uri for change in changes])
        known = {uri: by_place[here] for uri, by_place in placed.items() if here in by_place}
        withdrawn = load_withdrawn(self.connection, self.dataset, self.subject_key, changes=changes)
        said = [
            fragment
            for group in (
                *known.values(),
                *withdrawn.usable.values(),
                *(change.fragments for change in changes),
            )
            for fragment in group
        ]
        return plan_changes(
            self._shared(changes, self._fingerprints()),
            known,
            horizon_start_us=self._horizon_start_us(),
            sealed_segments=catalog.find_sealed_segments(
                self.connection,
                self.dataset.name,
                self.subject_key,
                segments=sorted({fragment.segment_us for fragment in said}),
            ),
            withdrawn=withdrawn.usable,
            former=withdrawn.former,
            contradicting=self.contradicting,
        )

    def _reread_changes(
        self,
        changes: Sequence[FileChange],
        outcomes: Mapping[str, ReadOutcome],
        moved: Collection[str],
        sealed: set[int],
    ) -> CatalogChanges:
        assert self.rebuild is not None
        known = catalog.load_subject_fragments(self.connection, self.dataset.name, self.subject_key)
        refuse_lost_readings(
            self.rebuild,
            outcomes,
            known,
            removed={change.source_uri for change in changes if change.is_removed} | {*self.leaving},
            earlier=self._earlier_generations(known),
            asked_for={
                each.item.file_uri
                for each in self.work
                if any(map(takes_file_as_it_is, each.assignment.orders))
            },
        )
        read = [
            read_change(uri, outcome, self.lake)
            for uri, outcome in self.read_again.items()
            if uri not in moved
        ]
        fingerprints = self._fingerprints() | {
            uri: outcome.fingerprint
            for uri, outcome in self.read_again.items()
            if outcome.fingerprint is not None
        }
        every = self._shared(
            [*changes, *(change for change in read if change is not None)],
            fingerprints,
            only_among_them=True,
        )
        withdrawn = load_withdrawn(self.connection, self.dataset, self.subject_key, changes=every)
        return plan_reread(
            every,
            known,
            horizon_start_us=self._horizon_start_us(),
            sealed=sealed,
            withdrawn=withdrawn.fragments,
        )

    def _earlier_generations(self, known: Sequence[FragmentEntry]) -> set[str]:
        """Files that are about another subject now and were about this one before they were replaced."""
        assert self.rebuild is not None
        others = {
            fragment.source_uri: fragment.generation
            for fragment in known
            if fragment.source_uri not in self.rebuild.files and fragment.state is FragmentState.ACTIVE
        }
        newest = catalog.load_fingerprints(self.connection, sorted(others)) if others else {}
        return {uri for uri, found in newest.items() if found.generation > others[uri]}

    def _shared(
        self,
        changes: Sequence[FileChange],
        fingerprints: Mapping[str, Fingerprint],
        *,
        only_among_them: bool = False,
    ) -> list[FileChange]:
        return share_fragments(
            self.connection,
            self.dataset,
            self.subject_key,
            changes=changes,
            fingerprints=fingerprints,
            only_among_them=only_among_them,
        )

    def _fingerprints(self) -> dict[str, Fingerprint]:
        return {
            each.item.file_uri: each.outcome.fingerprint
            for each in self.work
            if each.is_read and each.outcome is not None and each.outcome.fingerprint is not None
        }

    def _horizon_start_us(self) -> int | None:
        if self.dataset.horizon_us is None:
            return None
        place = self.dataset.name, self.subject_key
        high_us = (
            self.newest_us[place]
            if place in self.newest_us
            else catalog.high_event_us(self.connection, *place)
        )
        return None if high_us is None else high_us - self.dataset.horizon_us


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
    said = catalog.load_segment_fragments(
        connection, dataset.name, subject_key, segments=[entry.segment_us for entry in entries]
    )
    # A segment whose fragments are gone has nothing to be made from: scanned, it would seem empty.
    kept = {fragment.segment_us for fragment in said}
    for entry in entries:
        if entry.segment_us in kept and budget > 0:
            found[entry.segment_us] = entry.digest
            budget -= entry.readings
    return found
