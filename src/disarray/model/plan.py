"""What one commit does to one subject's catalog, worked out before anything is done: a value that can be printed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FragmentId = NewType("FragmentId", int)


class FragmentState(StrEnum):
    """Whether a fragment counts."""

    ACTIVE = "active"
    PARKED = "parked"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentEntry:
    """A fragment as the catalog knows it, or will know it: `fragment_id` is None until it is committed."""

    segment_us: int
    source_uri: str
    generation: int
    path: str
    row_group: int
    readings: int
    first_position: int
    last_position: int
    first_us: int
    last_us: int
    cut_position: int | None = None
    state: FragmentState = FragmentState.ACTIVE
    fragment_id: FragmentId | None = None

    @property
    def order_key(self) -> str:
        """What stands for the uri in the canonical order: a later generation of a file comes after an earlier one."""
        return f"{self.source_uri}\0{self.generation:08d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What one read, removal or release of a file asks for.

    Readings of `generation` at `seam_position` and beyond are replaced by `fragments`. None keeps all of them: the
    file is a new generation, or nothing of it was read.
    """

    source_uri: str
    generation: int
    seam_position: int | None
    fragments: tuple[FragmentEntry, ...] = ()
    is_parked: bool = False
    is_removed: bool = False
    is_released: bool = False
    ignores_horizon: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChanges:
    """Fragments that come, go, are cut or change their state; nothing else in the catalog moves."""

    added: tuple[FragmentEntry, ...]
    dropped: tuple[FragmentEntry, ...]
    cut: tuple[FragmentEntry, ...]
    released: tuple[FragmentEntry, ...]

    @property
    def counting(self) -> tuple[FragmentEntry, ...]:
        """The fragments whose change people can see; what is parked, or was, counts for nothing."""
        return tuple(
            fragment
            for fragment in (*self.added, *self.dropped, *self.cut, *self.released)
            if fragment.state is FragmentState.ACTIVE
        )

    @property
    def touched_segments(self) -> tuple[int, ...]:
        """Segments whose visible readings may change, in order."""
        return tuple(sorted({fragment.segment_us for fragment in self.counting}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanUnit:
    """One segment to scan again: its fragments as they will be, and the revision it was planned on."""

    segment_us: int
    revision: int
    fragments: tuple[FragmentEntry, ...]
    copied_readings: int = 0  # of files with the same bytes: duplicates that need not be looked at

    @property
    def readings(self) -> int:
        """About how many readings the scan has to look at."""
        return sum(fragment.readings for fragment in self.fragments)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectPlan:
    """All that one commit will do to one subject's readings of one dataset."""

    dataset: str
    subject_key: str
    changes: CatalogChanges
    units: tuple[ScanUnit, ...]

    def __str__(self) -> str:
        changes = self.changes
        parked = sum(fragment.state is FragmentState.PARKED for fragment in changes.added)
        return (
            f"{self.dataset}/{self.subject_key}: {len(changes.added)} fragments added ({parked} parked), "
            f"{len(changes.cut)} cut, {len(changes.dropped)} dropped, {len(changes.released)} released; "
            f"{len(self.units)} segments scanned again, {sum(unit.readings for unit in self.units)} readings"
        )


def plan_changes(
    changes: Iterable[FileChange],
    known: Mapping[str, Sequence[FragmentEntry]],
    *,
    horizon_start_us: int | None,
) -> CatalogChanges:
    """What the changes of some files do to the catalog; `known` has each file's fragments that are not dropped.

    Contributions to segments that start before `horizon_start_us` are parked: too late to be believed unasked.
    """
    added: list[FragmentEntry] = []
    dropped: list[FragmentEntry] = []
    cut: list[FragmentEntry] = []
    released: list[FragmentEntry] = []
    for change in changes:
        replaced: set[int] = set()
        for fragment in known.get(change.source_uri, ()):
            stays = None if change.is_removed else _what_stays(fragment, change)
            if stays is None:
                dropped.append(fragment)
            elif stays is not fragment:
                cut.append(stays)
            if stays is not fragment and fragment.state is FragmentState.ACTIVE:
                replaced.add(fragment.segment_us)
            if stays is not None and stays.state is FragmentState.PARKED and change.is_released:
                released.append(replace(stays, state=FragmentState.ACTIVE))
        for fragment in change.fragments:
            too_late = (
                not change.ignores_horizon
                and horizon_start_us is not None
                and fragment.segment_us < horizon_start_us
                # What a file says instead of what it said before is no late arrival: parked, it would leave a hole.
                and fragment.segment_us not in replaced
            )
            state = FragmentState.PARKED if change.is_parked or too_late else FragmentState.ACTIVE
            added.append(replace(fragment, state=state))
    return CatalogChanges(
        added=tuple(added), dropped=tuple(dropped), cut=tuple(cut), released=tuple(released)
    )


def plan_scans(
    changes: CatalogChanges, active: Iterable[FragmentEntry], revisions: Mapping[int, int]
) -> tuple[ScanUnit, ...]:
    """The segments to scan: what is active in the touched ones now, with the changes applied."""
    gone = {fragment.fragment_id for fragment in changes.dropped}
    changed = {fragment.fragment_id: fragment for fragment in changes.cut}
    by_segment: dict[int, list[FragmentEntry]] = {segment: [] for segment in changes.touched_segments}
    for fragment in active:
        if fragment.segment_us in by_segment and fragment.fragment_id not in gone:
            by_segment[fragment.segment_us].append(changed.get(fragment.fragment_id, fragment))
    for fragment in (*changes.released, *changes.added):
        if fragment.state is FragmentState.ACTIVE:
            by_segment[fragment.segment_us].append(fragment)
    return tuple(
        scan_unit(segment, revisions.get(segment, 0), fragments) for segment, fragments in by_segment.items()
    )


def scan_unit(segment_us: int, revision: int, fragments: Sequence[FragmentEntry]) -> ScanUnit:
    """One entry for each row group: of files that share it, the one that would win under any key."""
    shared: dict[tuple[str, int], FragmentEntry] = {}
    for fragment in fragments:
        place = fragment.path, fragment.row_group
        if place not in shared or shared[place].order_key.encode() < fragment.order_key.encode():
            shared[place] = fragment
    distinct = tuple(shared.values())
    copied = sum(fragment.readings for fragment in fragments) - sum(
        fragment.readings for fragment in distinct
    )
    return ScanUnit(segment_us=segment_us, revision=revision, fragments=distinct, copied_readings=copied)


def _what_stays(fragment: FragmentEntry, change: FileChange) -> FragmentEntry | None:
    """The fragment as the change leaves it: itself, cut at the seam, or None."""
    seam = change.seam_position
    if change.is_parked or seam is None or fragment.generation != change.generation:
        return fragment
    if fragment.first_position >= seam:
        return None
    end = fragment.last_position if fragment.cut_position is None else fragment.cut_position - 1
    return replace(fragment, cut_position=seam) if end >= seam else fragment
