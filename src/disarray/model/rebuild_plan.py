"""A subject whose files are read again under another definition: all of its fragments go, new ones take their place."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.errors import RebuildBlockedError
from disarray.model.catalog_changes import CatalogChanges, Decisions
from disarray.model.fragments import (
    FragmentState,
    as_released,
    counts_for_ever,
    former_states,
    restored_state,
)
from disarray.model.segments import is_beyond_horizon

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from disarray.model.catalog_changes import FileChange
    from disarray.model.fragments import FragmentEntry


def plan_reread(
    changes: Iterable[FileChange],
    known: Sequence[FragmentEntry],
    *,
    horizon_start_us: int | None,
    sealed: Collection[int] = (),
    withdrawn: Iterable[FragmentEntry] = (),
) -> CatalogChanges:
    """Drop all that is known of a subject and add what its files say now, each of them read whole.

    What counted goes on counting, and what waits for an operator goes on waiting: an operator's decisions outlive a
    definition. What counted in a segment that is sealed stays counted there; anything else for it is parked, and so is
    what counts for ever where its file was.
    `withdrawn` is what files said before they were blacklisted that are allowed again now: read anew, they count for
    what they counted for then.
    """
    every = list(changes)
    here: dict[str, list[FragmentEntry]] = defaultdict(list)
    for fragment in known:
        here[fragment.source_uri].append(fragment)
    before = defaultdict(list, {uri: list(fragments) for uri, fragments in here.items()})
    for fragment in (*withdrawn, *(old for change in every for old in change.moved_from)):
        before[fragment.source_uri].append(fragment)
    added = [
        replace(
            fragment,
            state=FragmentState.PARKED
            if fragment.segment_us in sealed or _counts_elsewhere(fragment, change, here[change.source_uri])
            else _state(fragment, change, before[change.source_uri], horizon_start_us=horizon_start_us),
        )
        for change in every
        if not change.is_removed
        for fragment in change.fragments
        if not _counted_when_sealed(fragment, here[change.source_uri])
    ]
    return CatalogChanges(
        added=tuple(added),
        dropped=tuple(fragment for fragment in known if fragment.state is not FragmentState.SEALED),
        cut=(),
        released=(),
        decisions=Decisions.of(every),
    )


def _state(
    fragment: FragmentEntry,
    change: FileChange,
    before: Sequence[FragmentEntry],
    *,
    horizon_start_us: int | None,
) -> FragmentState:
    if change.ignores_horizon:
        return FragmentState.ACTIVE
    is_too_late = is_beyond_horizon(fragment.segment_us, horizon_start_us)
    otherwise = FragmentState.PARKED if is_too_late else FragmentState.ACTIVE
    if change.is_allowed:
        return restored_state(fragment, before, otherwise=otherwise)
    states = former_states(fragment, before)
    if change.is_released and FragmentState.REJECTED not in states:
        states = former_states(fragment, as_released(before))
    if FragmentState.ACTIVE in states and len(states) > 1:
        raise RebuildBlockedError(
            f"{change.source_uri} has readings that count and others that are in quarantine or were rejected, and the "
            "new definition puts them into one segment. Release those in quarantine; or blacklist the file and allow "
            "it again: then what shares a segment with them waits in quarantine"
        )
    if states:
        # Of what is parked and what was rejected in one segment, an operator is asked again.
        return FragmentState.PARKED if FragmentState.PARKED in states else next(iter(states))
    return otherwise


def _counted_when_sealed(fragment: FragmentEntry, here: Sequence[FragmentEntry]) -> bool:
    return any(old.state is FragmentState.SEALED and old.segment_us == fragment.segment_us for old in here)


def _counts_elsewhere(fragment: FragmentEntry, change: FileChange, here: Sequence[FragmentEntry]) -> bool:
    known = as_released(here) if change.is_released else here
    return counts_for_ever(fragment, there=change.moved_from, here=known)
