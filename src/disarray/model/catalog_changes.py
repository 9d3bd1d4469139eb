"""What reading, removing and releasing files does to the catalog of one subject, as values."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from disarray.model.fragments import FragmentState, as_released, counts_for_ever, restored_state
from disarray.model.segments import is_beyond_horizon

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from disarray.model.fragments import FragmentEntry


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
        taken: list[FragmentEntry] = []  # those whose place it takes, a released one as it counts now
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
            is_released = (
                change.is_released
                and not is_withdrawn
                and fragment.state is FragmentState.PARKED
                and fragment.segment_us not in sealed_segments
            )
            # Released first, then replaced, also where one pass does both: else the decision would be lost with the
            # fragment, and what the file says of it now would wait anew.
            if stays is not fragment:
                taken += as_released([fragment]) if is_released else [fragment]
            if is_released and stays is not None:
                released.append(replace(stays, state=FragmentState.ACTIVE))
        replaced = {old.segment_us for old in taken if old.state is FragmentState.ACTIVE}
        repeated = _repeated_segments(change, counted)
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
                and is_beyond_horizon(fragment.segment_us, horizon_start_us)
                # What a file says instead of what it said before is no late arrival: parked, it would leave a hole.
                and fragment.segment_us not in replaced
            ) or fragment.segment_us in sealed_segments
            contradicts = (
                (change.source_uri, fragment.segment_us) in contradicting
                and not change.ignores_horizon
                and fragment.segment_us not in replaced
            )
            must_wait = too_late or contradicts
            state = FragmentState.PARKED if must_wait else FragmentState.ACTIVE
            if counts_for_ever(fragment, there=change.moved_from, here=taken):
                # Here it would count a second time: an operator decides.
                state = FragmentState.PARKED
            elif change.is_allowed and change.source_uri in (former or {}):
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


def _repeated_segments(change: FileChange, counted: Sequence[FragmentEntry]) -> set[int]:
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
    former, current = _extents(before), _extents(now)
    return {segment for segment, extent in current.items() if former.get(segment) == extent}


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


def _moved_state(fragment: FragmentEntry, change: FileChange, *, otherwise: FragmentState) -> FragmentState:
    """What a part of a file counts for that belongs to another dataset or subject now: the same as before."""
    if change.ignores_horizon:
        return FragmentState.ACTIVE
    before = as_released(change.moved_from) if change.is_released else change.moved_from
    return restored_state(fragment, before, otherwise=otherwise)


def _returned(fragment: FragmentEntry, sealed_segments: Collection[int]) -> FragmentEntry:
    is_active = fragment.state is FragmentState.ACTIVE
    if is_active and fragment.segment_us in sealed_segments:
        return replace(fragment, state=FragmentState.PARKED)
    return fragment


def _what_stays(fragment: FragmentEntry, change: FileChange) -> FragmentEntry | None:
    """The fragment as the change leaves it: itself, cut at the seam, or None."""
    seam = change.seam_position
    if seam is None or fragment.generation != change.generation:
        return fragment
    if fragment.first_position >= seam:
        return None
    return replace(fragment, cut_position=seam) if fragment.end_position >= seam else fragment
