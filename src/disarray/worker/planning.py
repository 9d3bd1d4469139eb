"""From what was read to what has to change, with one look at the catalog for each subject and dataset."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from disarray.control import catalog, readings
from disarray.control.files import Reason
from disarray.errors import RebuildBlockedError
from disarray.model.dataset import Store
from disarray.model.plan import CatalogChanges, FileChange, StoredRows, SubjectPlan, plan_changes, plan_scans
from disarray.model.rebuild_plan import plan_reread
from disarray.model.segments import FIRST_US, LAST_US
from disarray.worker.assignment import file_change, read_change
from disarray.worker.rebuilding import moved_files, refuse_lost_readings
from disarray.worker.sharing import share_fragments

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from disarray.control.catalog import SegmentEntry
    from disarray.control.connections import Connection
    from disarray.kernels.outcome import ReadOutcome
    from disarray.model.dataset import Dataset
    from disarray.model.fingerprints import Fingerprint
    from disarray.model.plan import ScanUnit
    from disarray.store.lake import Lake
    from disarray.worker.rebuilding import Rebuild, SubjectOfDataset
    from disarray.worker.work import Work

# One pass copies about so many readings between stores: staged on disk, and locked for as long as that takes.
MOST_COPIED = 5_000_000


@dataclass(frozen=True, slots=True)
class SubjectPlans:
    """What the items of a subject change, a plan for each dataset; and the rebuilds that cannot be done now."""

    plans: list[SubjectPlan] = field(default_factory=list)
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
) -> SubjectPlans:
    """What the items of one subject change; one that waits for a rebuild is rebuilt with them."""
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
        )
        try:
            plan = planning.plan()
        except RebuildBlockedError as error:
            planned.blocked[place] = error
        else:
            planned.plans.extend([] if plan is None else [plan])
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

    def plan(self) -> SubjectPlan | None:
        """What to change; None where no item asks for anything."""
        changes = [
            change
            for change in (file_change(each.assignment, each.outcome, self.lake) for each in self.work)
            if change is not None
        ]
        if self.rebuild is None:
            copies = any(Reason.COPY in each.assignment.reasons for each in self.work)
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
            **{each.item.source_uri: each.outcome for each in self.work if each.outcome is not None},
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
        if touched:
            segments = catalog.load_segments(
                self.connection, name, self.subject_key, from_us=touched[0], to_us=touched[-1]
            )
            units = plan_scans(
                planned,
                catalog.load_segment_fragments(self.connection, name, self.subject_key, segments=touched),
                {segment.segment_us: segment.revision for segment in segments},
                also=(*besides, *copied),
            )
        in_units = set(touched)
        return SubjectPlan(
            dataset=name,
            subject_key=self.subject_key,
            changes=planned,
            units=units,
            rebuild=None if self.rebuild is None else replace(self.rebuild.step, moved=moved or {}),
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

    def _ordinary_changes(self, changes: Sequence[FileChange]) -> CatalogChanges:
        known = catalog.load_file_fragments(self.connection, [change.source_uri for change in changes])
        said = [
            fragment
            for group in (*known.values(), *(change.fragments for change in changes))
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
            removed={change.source_uri for change in changes if change.is_removed},
            asked_for={
                each.item.source_uri for each in self.work if each.assignment.asks_for_the_file_as_it_is
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
        return plan_reread(every, known, horizon_start_us=self._horizon_start_us(), sealed=sealed)

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
            each.item.source_uri: each.outcome.fingerprint
            for each in self.work
            if each.is_read and each.outcome is not None and each.outcome.fingerprint is not None
        }

    def _horizon_start_us(self) -> int | None:
        if self.dataset.horizon_us is None:
            return None
        high_us = catalog.high_event_us(self.connection, self.dataset.name, self.subject_key)
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
