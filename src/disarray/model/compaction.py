"""Which row groups of a segment become one, so that no scan can tell the difference.

What one file said in many appends becomes one fragment. What many files said in a few readings each stays a fragment of
each file, because any of them may be removed some day, and they share a row group.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.model.fragments import FragmentState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disarray.model.fragments import Extent, FragmentEntry


# What one row group holds at most. A damaged one concerns so many files, and a scan of any of them reads all of it.
PACK_FRAGMENTS = 1_000
PACK_READINGS = 100_000


@dataclass(frozen=True, slots=True)
class MergeGroup:
    """Row groups that the same files name: `fragments` are all the entries that go, a file with its copies.

    Each of the files gets one entry in their place. Row groups that only some of them name are another group: what
    two files share stays shared, and what they do not stays apart.
    """

    fragments: tuple[FragmentEntry, ...]

    @property
    def sources(self) -> tuple[FragmentEntry, ...]:
        """One entry for each row group, whichever file names it: they cut it at the same position."""
        return tuple({fragment.extent: fragment for fragment in self.fragments}.values())

    @property
    def readings(self) -> int:
        """About how many readings it holds."""
        return sum(fragment.readings for fragment in self.sources)

    @property
    def files(self) -> tuple[tuple[str, int], ...]:
        """The files that name the row groups, by uri and generation."""
        return tuple(sorted({(fragment.source_uri, fragment.generation) for fragment in self.fragments}))


def plan_compaction(fragments: Iterable[FragmentEntry]) -> tuple[MergeGroup, ...]:
    """The groups of one segment; `fragments` are all that are active or parked in it.

    A row group of which part is parked, or that its files cut at different positions, is left where it lies.
    """
    by_extent: dict[Extent, list[FragmentEntry]] = defaultdict(list)
    for fragment in fragments:
        by_extent[fragment.extent].append(fragment)
    groups: dict[tuple[tuple[str, int], ...], list[FragmentEntry]] = defaultdict(list)
    for sharers in by_extent.values():
        if any(fragment.state is not FragmentState.ACTIVE for fragment in sharers):
            continue
        if len({fragment.cut_position for fragment in sharers}) > 1:
            continue
        files = tuple(sorted((fragment.source_uri, fragment.generation) for fragment in sharers))
        groups[files] += sharers
    return tuple(MergeGroup(tuple(group)) for _, group in sorted(groups.items()))


def pack_groups(groups: Iterable[MergeGroup]) -> tuple[tuple[MergeGroup, ...], ...]:
    """Groups that share a row group, in their order. A file is in a row group once: so the catalog can name it."""
    packs: list[tuple[MergeGroup, ...]] = []
    held: list[MergeGroup] = []
    uris: set[str] = set()
    readings = 0
    for group in groups:
        own = {uri for uri, _ in group.files}
        if held and (
            len(held) == PACK_FRAGMENTS
            or readings + group.readings > PACK_READINGS
            or not uris.isdisjoint(own)
        ):
            packs.append(tuple(held))
            held, uris, readings = [], set(), 0
        held.append(group)
        uris |= own
        readings += group.readings
    return (*packs, tuple(held)) if held else tuple(packs)


def count_row_groups(fragments: Iterable[FragmentEntry]) -> int:
    """The row groups that fragments lie in."""
    return len({(fragment.path, fragment.row_group) for fragment in fragments})
