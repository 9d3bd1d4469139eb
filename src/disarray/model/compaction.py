"""Which row groups of a segment become one, so that no scan can tell the difference."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.model.plan import FragmentState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disarray.model.plan import FragmentEntry


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
        by_place = {(fragment.path, fragment.row_group): fragment for fragment in self.fragments}
        return tuple(by_place.values())

    @property
    def files(self) -> tuple[tuple[str, int], ...]:
        """The files that name the row groups, by uri and generation."""
        return tuple(sorted({(fragment.source_uri, fragment.generation) for fragment in self.fragments}))


def plan_compaction(fragments: Iterable[FragmentEntry]) -> tuple[MergeGroup, ...]:
    """The groups of one segment; `fragments` are all that are active or parked in it.

    A row group of which part is parked, or that its files cut at different positions, is left where it lies.
    """
    by_place: dict[tuple[str, int], list[FragmentEntry]] = defaultdict(list)
    for fragment in fragments:
        by_place[fragment.path, fragment.row_group].append(fragment)
    groups: dict[tuple[tuple[str, int], ...], list[FragmentEntry]] = defaultdict(list)
    for sharers in by_place.values():
        if any(fragment.state is not FragmentState.ACTIVE for fragment in sharers):
            continue
        if len({fragment.cut_position for fragment in sharers}) > 1:
            continue
        files = tuple(sorted((fragment.source_uri, fragment.generation) for fragment in sharers))
        groups[files] += sharers
    return tuple(MergeGroup(tuple(group)) for _, group in sorted(groups.items()))
