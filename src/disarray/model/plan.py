"""What one commit does to one subject's catalog, worked out before anything is done: a value that can be printed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

from disarray.model.dataset import Store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from disarray.model.dataset import Version

FragmentId = NewType("FragmentId", int)


class FragmentState(StrEnum):
    """Whether a fragment counts."""

    ACTIVE = "active"
    PARKED = "parked"
    REJECTED = "rejected"
    SEALED = "sealed"
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
    """Fragments that come, go, are cut or change their state; nothing else in the catalog moves.

    `sealed` is what a file says, or said, about segments that are sealed: it counted, and stays as it was counted.
    """

    added: tuple[FragmentEntry, ...]
    dropped: tuple[FragmentEntry, ...]
    cut: tuple[FragmentEntry, ...]
    released: tuple[FragmentEntry, ...]
    sealed: tuple[FragmentEntry, ...] = ()

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


@dataclass(frozen=True, slots=True)
class StoredRows:
    """What the table of a dataset holds of one segment."""

    rows: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildStep:
    """From which definition a commit moves its subject; what is not scanned again keeps the numbers named here."""

    before: Version
    kept_metrics: tuple[str, ...]
    kept_rollups: tuple[str, ...]
    moved: Mapping[str, str] = field(default_factory=dict)  # uri → the subject that the file is about now


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectPlan:
    """All that one commit will do to one subject's readings of one dataset."""

    dataset: str
    subject_key: str
    changes: CatalogChanges
    units: tuple[ScanUnit, ...]
    rebuild: RebuildStep | None = None
    store: Store = Store.LAKE
    in_table: Mapping[int, StoredRows] = field(default_factory=dict)  # of the units, what the table holds
    copied: Mapping[int, str] = field(
        default_factory=dict
    )  # units that only change their store: their digests

    def __str__(self) -> str:
        changes = self.changes
        parked = sum(fragment.state is FragmentState.PARKED for fragment in changes.added)
        return (
            f"{self.dataset}/{self.subject_key}: {len(changes.added)} fragments added ({parked} parked), "
            f"{len(changes.cut)} cut, {len(changes.dropped)} dropped, {len(changes.released)} released; "
            f"{len(self.units)} segments scanned again, {sum(unit.readings for unit in self.units)} readings"
            + (f"; {len(changes.sealed)} in sealed segments left as they are" if changes.sealed else "")
            + ("" if self.rebuild is None else "; rebuilt under another definition")
        )


def plan_changes(
    changes: Iterable[FileChange],
    known: Mapping[str, Sequence[FragmentEntry]],
    *,
    horizon_start_us: int | None,
    sealed_segments: Collection[int] = frozenset(),
) -> CatalogChanges:
    """What the changes of some files do to the catalog; `known` has each file's fragments that are not dropped.

    Contributions to segments that start before `horizon_start_us` are parked: too late to be believed unasked. So are
    those to `sealed_segments`, unless the file says again what it said before they were sealed.
    """
    added: list[FragmentEntry] = []
    dropped: list[FragmentEntry] = []
    cut: list[FragmentEntry] = []
    released: list[FragmentEntry] = []
    sealed: list[FragmentEntry] = []
    for change in changes:
        replaced: set[int] = set()
        counted: list[FragmentEntry] = []
        for fragment in known.get(change.source_uri, ()):
            if fragment.state is FragmentState.SEALED:
                counted.append(fragment)
                continue
            stays = None if change.is_removed else _what_stays(fragment, change)
            if stays is None:
                dropped.append(fragment)
            elif stays is not fragment:
                cut.append(stays)
            if stays is not fragment and fragment.state is FragmentState.ACTIVE:
                replaced.add(fragment.segment_us)
            if (
                stays is not None
                and stays.state is FragmentState.PARKED
                and change.is_released
                and stays.segment_us not in sealed_segments
            ):
                released.append(replace(stays, state=FragmentState.ACTIVE))
        repeated = _said_again(change, counted)
        sealed += counted if change.is_removed else ()
        for fragment in change.fragments:
            if fragment.segment_us in repeated:
                sealed.append(fragment)
                continue
            if fragment.state is FragmentState.SEALED:
                # A copy of a file that counted in a sealed segment counted there too.
                added += [] if any(own.segment_us == fragment.segment_us for own in counted) else [fragment]
                continue
            too_late = (
                not change.ignores_horizon
                and horizon_start_us is not None
                and fragment.segment_us < horizon_start_us
                # What a file says instead of what it said before is no late arrival: parked, it would leave a hole.
                and fragment.segment_us not in replaced
            ) or fragment.segment_us in sealed_segments
            state = FragmentState.PARKED if change.is_parked or too_late else FragmentState.ACTIVE
            added.append(replace(fragment, state=state))
    return CatalogChanges(
        added=tuple(added),
        dropped=tuple(dropped),
        cut=tuple(cut),
        released=tuple(released),
        sealed=tuple(sealed),
    )


def plan_scans(
    changes: CatalogChanges,
    active: Iterable[FragmentEntry],
    revisions: Mapping[int, int],
    *,
    also: Iterable[int] = (),
) -> tuple[ScanUnit, ...]:
    """The segments to scan, the touched ones and some more: what is active in them now, with the changes applied."""
    gone = {fragment.fragment_id for fragment in changes.dropped}
    changed = {fragment.fragment_id: fragment for fragment in changes.cut}
    by_segment: dict[int, list[FragmentEntry]] = {
        segment: [] for segment in sorted({*changes.touched_segments, *also})
    }
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
    shared: dict[tuple[str, int, int | None], FragmentEntry] = {}
    for fragment in fragments:
        # One may have been cut where the other still says what it said: then they are no longer the same.
        place = fragment.path, fragment.row_group, fragment.cut_position
        if place not in shared or shared[place].order_key.encode() < fragment.order_key.encode():
            shared[place] = fragment
    distinct = tuple(shared.values())
    copied = sum(fragment.readings for fragment in fragments) - sum(
        fragment.readings for fragment in distinct
    )
    return ScanUnit(segment_us=segment_us, revision=revision, fragments=distinct, copied_readings=copied)


def _said_again(change: FileChange, counted: Sequence[FragmentEntry]) -> set[int]:
    """Sealed segments of which the file says what it said when they were sealed, as far as the catalog can tell."""
    seam = change.seam_position or 0
    before = [
        fragment
        for fragment in counted
        if fragment.generation == change.generation
        and fragment.first_position >= seam
        and fragment.cut_position is None
    ]
    now = [fragment for fragment in change.fragments if fragment.state is not FragmentState.SEALED]
    told, tells = _extents(before), _extents(now)
    return {segment for segment, extent in tells.items() if told.get(segment) == extent}


def _extents(fragments: Iterable[FragmentEntry]) -> dict[int, tuple[int, ...]]:
    by_segment: dict[int, list[FragmentEntry]] = defaultdict(list)
    for fragment in fragments:
        by_segment[fragment.segment_us].append(fragment)
    return {
        segment: (
            sum(fragment.readings for fragment in group),
            min(fragment.first_position for fragment in group),
            max(fragment.last_position for fragment in group),
            min(fragment.first_us for fragment in group),
            max(fragment.last_us for fragment in group),
        )
        for segment, group in by_segment.items()
    }


def _what_stays(fragment: FragmentEntry, change: FileChange) -> FragmentEntry | None:
    """The fragment as the change leaves it: itself, cut at the seam, or None."""
    seam = change.seam_position
    if change.is_parked or seam is None or fragment.generation != change.generation:
        return fragment
    if fragment.first_position >= seam:
        return None
    end = fragment.last_position if fragment.cut_position is None else fragment.cut_position - 1
    return replace(fragment, cut_position=seam) if end >= seam else fragment
