"""What one commit does to one subject's catalog, worked out before anything is done: a value that can be printed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

from disarray.model.description.dataset import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from disarray.model.description.dataset import Dataset, Version

FragmentId = NewType("FragmentId", int)
Extent = tuple[str, int, int | None]  # file of the lake, row group, first row in it


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
    contradicts: bool = False  # parked because another file says something else under its keys
    arrival: int = 0  # when its file was first announced, by number; 0 where the dataset does not ask
    fragment_id: FragmentId | None = None
    digest: str | None = None  # of the bytes of its row group and of the footer of its file
    file_checksum: str | None = None  # of the whole file, where there is no digest
    first_row: int | None = None  # in a row group that it shares with others; None: all of it is its own

    @property
    def extent(self) -> Extent:
        """Where its readings lie in the lake."""
        return self.path, self.row_group, self.first_row

    @property
    def order_key(self) -> str:
        """What stands for the uri in the canonical order: a later generation of a file comes after an earlier one."""
        return f"{self.source_uri}\0{self.generation:08d}"

    @property
    def precedence(self) -> tuple[int, bytes]:
        """The greater wins where files say the same."""
        return self.arrival, self.order_key.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What one read, removal or release of a file asks for.

    Readings of `generation` at `seam_position` and beyond are replaced by `fragments`. None keeps all of them: the
    file is a new generation, or nothing of it was read. `moved_from` is what it says for another dataset or
    subject, which it is about to leave: whether that counted is what becomes of it here.
    """

    source_uri: str
    generation: int
    seam_position: int | None
    fragments: tuple[FragmentEntry, ...] = ()
    is_parked: bool = False
    is_removed: bool = False
    is_released: bool = False
    is_allowed: bool = False  # what it said before it was blacklisted counts again
    is_replaced: bool = False  # somebody released the version that says less
    ignores_horizon: bool = False
    is_leaving: bool = False  # it counts elsewhere, or nowhere: whatever it said here goes
    moved_from: tuple[FragmentEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The uris of files about which somebody decided, by what was decided."""

    removed: tuple[str, ...] = ()  # blacklisted
    allowed: tuple[str, ...] = ()  # no longer blacklisted
    replaced: tuple[str, ...] = ()  # their released version takes the place of what they said

    @classmethod
    def of(cls, changes: Sequence[FileChange]) -> Decisions:
        """Those behind some changes."""
        return cls(
            removed=tuple(change.source_uri for change in changes if change.is_removed),
            allowed=tuple(change.source_uri for change in changes if change.is_allowed),
            replaced=tuple(change.source_uri for change in changes if change.is_replaced),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChanges:
    """Fragments that come, go, are cut or change their state; nothing else in the catalog moves.

    `sealed` is what a file says, or said, about segments that are sealed: it counted, and stays as it was counted.
    What a blacklisted file said is withdrawn: it returns, `restored`, when the file is allowed again.
    """

    added: tuple[FragmentEntry, ...]
    dropped: tuple[FragmentEntry, ...]
    cut: tuple[FragmentEntry, ...]
    released: tuple[FragmentEntry, ...]
    sealed: tuple[FragmentEntry, ...] = ()
    restored: tuple[FragmentEntry, ...] = ()
    decisions: Decisions = Decisions()

    @property
    def counting(self) -> tuple[FragmentEntry, ...]:
        """The fragments whose change people can see; what is parked, or was, counts for nothing."""
        return tuple(
            fragment
            for fragment in (*self.added, *self.dropped, *self.cut, *self.released, *self.restored)
            if fragment.state is FragmentState.ACTIVE
        )

    @property
    def touched_segments(self) -> tuple[int, ...]:
        """Segments whose visible readings may change, in order."""
        return tuple(sorted({fragment.segment_us for fragment in self.counting}))


@dataclass(frozen=True, slots=True)
class FormerSegment:
    """A segment as it is before a commit, to be compared with what it will be; without fragments it has no readings."""

    fragments: tuple[FragmentEntry, ...]
    digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanUnit:
    """One segment to scan again: its fragments as they will be, and the revision it was planned on."""

    segment_us: int
    revision: int
    fragments: tuple[FragmentEntry, ...]
    copied_readings: int = 0  # of files with the same bytes: duplicates that need not be looked at
    former: FormerSegment | None = None  # None: no value that anybody may have used can change here

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
    former: Dataset | None = None  # the definition that numbers were made under, where a rebuild leaves it
    restates: bool = False  # whether values that people may have used can change
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
            f"{len(changes.cut)} cut, {len(changes.dropped)} dropped, {len(changes.released)} released, "
            f"{len(changes.restored)} restored; "
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
    withdrawn: Mapping[str, Sequence[FragmentEntry]] | None = None,
    former: Mapping[str, Sequence[FragmentEntry]] | None = None,
    contradicting: Collection[tuple[str, int]] = frozenset(),
) -> CatalogChanges:
    """What the changes of some files do to the catalog; `known` has each file's fragments that are not dropped.

    `withdrawn` has what files said before they were blacklisted, in the states of then. It returns when they are
    allowed again, as far as the file still says it: what counted counts, what waited waits, what was rejected stays so.
    What the files in `contradicting` say about the segments there is parked: others say something else.
    `former` has the same of files that are read anew, because they are read differently now: their states alone.

    Contributions to segments that start before `horizon_start_us` are parked: too late to be believed unasked. So are
    those to `sealed_segments`, unless the file says again what it said before they were sealed.
    """
    added: list[FragmentEntry] = []
    dropped: list[FragmentEntry] = []
    cut: list[FragmentEntry] = []
    released: list[FragmentEntry] = []
    sealed: list[FragmentEntry] = []
    restored: list[FragmentEntry] = []
    every = list(changes)
    for change in every:
        replaced: set[int] = set()
        counted: list[FragmentEntry] = []
        before = (withdrawn or {}).get(change.source_uri, ()) if change.is_allowed else ()
        own = known.get(change.source_uri, ())
        for number, fragment in enumerate((*own, *before)):
            is_withdrawn = number >= len(own)
            if fragment.state is FragmentState.SEALED:
                counted.append(fragment)
                continue
            stays = None if change.is_removed or change.is_leaving else _what_stays(fragment, change)
            if is_withdrawn:
                restored += [] if stays is None else [_returned(stays, sealed_segments)]
            elif stays is None:
                dropped.append(fragment)
            if stays is not None and stays is not fragment:
                cut.append(stays)
            if stays is not fragment and fragment.state is FragmentState.ACTIVE:
                replaced.add(fragment.segment_us)
            if (
                stays is not None
                and not is_withdrawn
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
            contradicts = (
                (change.source_uri, fragment.segment_us) in contradicting
                and not change.ignores_horizon
                and fragment.segment_us not in replaced
            )
            must_wait = change.is_parked or too_late or contradicts
            state = FragmentState.PARKED if must_wait else FragmentState.ACTIVE
            if change.is_allowed and change.source_uri in (former or {}):
                state = restored_state(fragment, (former or {})[change.source_uri], otherwise=state)
            elif change.moved_from and fragment.segment_us not in sealed_segments:
                state = _moved_state(fragment, change, otherwise=state)
            is_parked = state is FragmentState.PARKED
            added.append(replace(fragment, state=state, contradicts=contradicts and is_parked))
    return CatalogChanges(
        added=tuple(added),
        dropped=tuple(dropped),
        cut=tuple(cut),
        released=tuple(released),
        sealed=tuple(sealed),
        restored=tuple(restored),
        decisions=Decisions.of(every),
    )


def plan_scans(
    changes: CatalogChanges,
    active: Iterable[FragmentEntry],
    revisions: Mapping[int, int],
    *,
    also: Iterable[int] = (),
    arrived: Callable[[Sequence[FragmentEntry]], Sequence[FragmentEntry]] | None = None,
) -> tuple[ScanUnit, ...]:
    """The segments to scan, the touched ones and some more: what is active in them now, with the changes applied.

    `arrived` gives each fragment the arrival of its file.
    """
    gone = {fragment.fragment_id for fragment in changes.dropped}
    changed = {fragment.fragment_id: fragment for fragment in changes.cut}
    by_segment: dict[int, list[FragmentEntry]] = {
        segment: [] for segment in sorted({*changes.touched_segments, *also})
    }
    for fragment in active:
        if fragment.segment_us in by_segment and fragment.fragment_id not in gone:
            by_segment[fragment.segment_us].append(changed.get(fragment.fragment_id, fragment))
    for fragment in (*changes.released, *changes.restored, *changes.added):
        if fragment.state is FragmentState.ACTIVE:
            by_segment[fragment.segment_us].append(fragment)
    if arrived is not None:
        every = arrived([fragment for fragments in by_segment.values() for fragment in fragments])
        by_segment = {segment: [] for segment in by_segment}
        for fragment in every:
            by_segment[fragment.segment_us].append(fragment)
    return tuple(
        scan_unit(segment, revisions.get(segment, 0), fragments) for segment, fragments in by_segment.items()
    )


def with_former_segments(
    units: Sequence[ScanUnit],
    active: Iterable[FragmentEntry],
    digests: Mapping[int, str],
    *,
    newest_us: int,
) -> tuple[ScanUnit, ...]:
    """The units with what is active in them now; those behind the newest reading bring news and are not compared."""
    by_segment: dict[int, list[FragmentEntry]] = defaultdict(list)
    for fragment in active:
        by_segment[fragment.segment_us].append(fragment)
    return tuple(
        unit
        if unit.segment_us > newest_us
        else replace(
            unit,
            former=FormerSegment(
                scan_unit(unit.segment_us, unit.revision, by_segment[unit.segment_us]).fragments,
                digests.get(unit.segment_us),
            ),
        )
        for unit in units
    )


def scan_unit(segment_us: int, revision: int, fragments: Sequence[FragmentEntry]) -> ScanUnit:
    """One entry for each row group: of files that share it, the one that would win under any key."""
    shared: dict[tuple[str, int, int | None, int | None], FragmentEntry] = {}
    for fragment in fragments:
        # One may have been cut where the other still says what it said: then they are no longer the same.
        place = *fragment.extent, fragment.cut_position
        if place not in shared or shared[place].precedence < fragment.precedence:
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


def restored_state(
    fragment: FragmentEntry, before: Sequence[FragmentEntry], *, otherwise: FragmentState
) -> FragmentState:
    """What a part of a file counts for that is allowed again and was read anew: the same as before."""
    states = former_states(fragment, before)
    if len(states) > 1:
        # In one segment with what waits or was rejected: an operator is asked again.
        return FragmentState.PARKED
    return next(iter(states), otherwise)


def _moved_state(fragment: FragmentEntry, change: FileChange, *, otherwise: FragmentState) -> FragmentState:
    """What a part of a file counts for that belongs to another dataset or subject now: the same as before."""
    if any(old.state is FragmentState.SEALED and _meets_in_time(old, fragment) for old in change.moved_from):
        # It counts there for ever. Here it would count a second time: an operator decides.
        return FragmentState.PARKED
    if change.is_released or change.ignores_horizon:
        return FragmentState.ACTIVE
    return restored_state(fragment, change.moved_from, otherwise=otherwise)


def former_states(fragment: FragmentEntry, before: Iterable[FragmentEntry]) -> set[FragmentState]:
    """The states of those of some older fragments of a file that say what this one says now."""
    kept = [old for old in before if old.state is not FragmentState.SEALED]
    # Times tell the old fragments apart, unless it is the times that are read differently now: then positions do.
    return {old.state for old in kept if _meets_in_time(old, fragment)} or {
        old.state for old in kept if _meets_in_file(old, fragment)
    }


def _meets_in_time(old: FragmentEntry, new: FragmentEntry) -> bool:
    return old.first_us <= new.last_us and new.first_us <= old.last_us


def _meets_in_file(old: FragmentEntry, new: FragmentEntry) -> bool:
    return old.first_position <= new.last_position and new.first_position <= old.last_position


def _returned(fragment: FragmentEntry, sealed_segments: Collection[int]) -> FragmentEntry:
    is_active = fragment.state is FragmentState.ACTIVE
    if is_active and fragment.segment_us in sealed_segments:
        return replace(fragment, state=FragmentState.PARKED)
    return fragment


def _what_stays(fragment: FragmentEntry, change: FileChange) -> FragmentEntry | None:
    """The fragment as the change leaves it: itself, cut at the seam, or None."""
    seam = change.seam_position
    if change.is_parked or seam is None or fragment.generation != change.generation:
        return fragment
    if fragment.first_position >= seam:
        return None
    end = fragment.last_position if fragment.cut_position is None else fragment.cut_position - 1
    return replace(fragment, cut_position=seam) if end >= seam else fragment
