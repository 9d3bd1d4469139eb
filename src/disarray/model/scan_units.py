"""The segments that a commit has to scan again, each with its fragments as they will be."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from disarray.model.fragments import FragmentState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from disarray.model.catalog_changes import CatalogChanges
    from disarray.model.fragments import FragmentEntry


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
        extent = *fragment.extent, fragment.cut_position
        if extent not in shared or shared[extent].precedence < fragment.precedence:
            shared[extent] = fragment
    distinct = tuple(shared.values())
    copied = sum(fragment.readings for fragment in fragments) - sum(
        fragment.readings for fragment in distinct
    )
    return ScanUnit(segment_us=segment_us, revision=revision, fragments=distinct, copied_readings=copied)
