"""The work on one dataset of one subject, and what it changes in the catalog."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from disarray.control import catalog
from disarray.model.catalog_changes import CatalogChanges, FileChange, plan_changes
from disarray.model.fragments import FragmentState
from disarray.model.rebuild_plan import plan_reread
from disarray.worker.passes.assignment import file_change, read_change
from disarray.worker.passes.rebuilding import refuse_lost_readings
from disarray.worker.passes.restoring import load_withdrawn
from disarray.worker.passes.sharing import share_fragments
from disarray.worker.passes.work_order import takes_file_as_it_is

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.description.dataset import Dataset
    from disarray.model.fingerprints import Fingerprint
    from disarray.model.fragments import FragmentEntry
    from disarray.store.lake import Lake
    from disarray.worker.passes.rebuilding import Rebuild, SubjectOfDataset
    from disarray.worker.passes.resyncing import StagedSwap
    from disarray.worker.passes.work import Work


@dataclass(frozen=True)
class DatasetWork:
    """The work on one dataset of one subject, with all that decides what it changes."""

    connection: Connection
    dataset: Dataset
    subject_key: str
    work: Sequence[Work]
    rebuild: Rebuild | None
    read_again: Mapping[str, ReadOutcome]  # of files without an item
    lake: Lake
    moved: Collection[str]  # files that have readings elsewhere
    leaving: Mapping[str, int | None]  # uri → the generation that counts elsewhere now, None for all of them
    decided: Mapping[str, str]  # uri → what is to be done to earlier generations of files about others
    newest_us: Mapping[SubjectOfDataset, int | None]
    contradicting: Collection[tuple[str, int]]  # files and segments
    swap: StagedSwap | None = None  # the generation that takes the place of the one before

    def file_changes(self) -> list[FileChange]:
        """What its items ask for, file by file, and the files that have to leave."""
        changes = [
            change
            for change in (file_change(each.assignment, each.outcome, self.lake) for each in self.work)
            if change is not None
        ]
        return self._with_origins(changes) + self._departures(changes) + self._decisions() + self._swapped()

    def _decisions(self) -> list[FileChange]:
        """What was decided about files that are about other subjects by now, and said something of this one earlier."""
        return [
            FileChange(
                source_uri=uri,
                generation=0,
                seam_position=None,
                is_allowed=decision == "allow",
                is_released=decision == "release",
            )
            for uri, decision in self.decided.items()
        ]

    def _swapped(self) -> list[FileChange]:
        if self.swap is None:
            return []
        sealed = catalog.find_sealed_segments(
            self.connection, self.dataset.name, self.subject_key, segments=self.swap.segments()
        )
        return self.swap.changes(self.lake, sealed)

    @property
    def outcomes(self) -> dict[str, ReadOutcome]:
        """What was read for it, with an item or without."""
        return {
            **self.read_again,
            **{each.item.file_uri: each.outcome for each in self.work if each.outcome is not None},
        }

    def _with_origins(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """The changes, each with what its file says elsewhere of what was read for this subject now."""
        moved = [
            change.source_uri
            for change in changes
            if change.seam_position is not None and change.source_uri in self.moved
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
                    for other, fragments in placed.get(change.source_uri, {}).items()
                    if other != here
                    for fragment in fragments
                    if _is_read_here(fragment, change)
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

    def ordinary_changes(self, changes: Sequence[FileChange]) -> CatalogChanges:
        """What these files change where fragments stay what they are."""
        here = self.dataset.name, self.subject_key
        placed = catalog.load_file_fragments(self.connection, [change.source_uri for change in changes])
        known = {uri: by_subject[here] for uri, by_subject in placed.items() if here in by_subject}
        withdrawn = load_withdrawn(self.connection, self.dataset, self.subject_key, changes=changes)
        fragments = [
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
                segments=sorted({fragment.segment_us for fragment in fragments}),
            ),
            withdrawn=withdrawn.usable,
            former=withdrawn.former,
            contradicting=self.contradicting,
        )

    def reread_changes(
        self, changes: Sequence[FileChange], moved: Collection[str], sealed: set[int]
    ) -> CatalogChanges:
        """What changes where every file of the subject is read again; `RebuildBlockedError` where one says less."""
        assert self.rebuild is not None
        known = catalog.load_subject_fragments(self.connection, self.subject_key).get(self.dataset.name, [])
        refuse_lost_readings(
            self.rebuild,
            self.outcomes,
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
            if fragment.source_uri not in self.rebuild.files
            and fragment.state in (FragmentState.ACTIVE, FragmentState.PARKED)
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
        here = self.dataset.name, self.subject_key
        high_us = (
            self.newest_us[here] if here in self.newest_us else catalog.high_event_us(self.connection, *here)
        )
        return None if high_us is None else high_us - self.dataset.horizon_us


def _is_read_here(fragment: FragmentEntry, change: FileChange) -> bool:
    """Whether what a file says elsewhere is among what was read of it now."""
    if change.seam_position is None or fragment.generation != change.generation:
        return False
    # Of a file that was read in part, what is elsewhere may be the rest; only what is sealed there stays when it moved.
    return change.seam_position == 0 or (
        fragment.state is FragmentState.SEALED and fragment.end_position >= change.seam_position
    )
