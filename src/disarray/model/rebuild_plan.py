"""A subject whose files are read again under another definition: all of its fragments go, new ones take their place."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.errors import RebuildBlockedError
from disarray.model.plan import CatalogChanges, FragmentState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from disarray.model.plan import FileChange, FragmentEntry


def plan_reread(
    changes: Iterable[FileChange],
    known: Sequence[FragmentEntry],
    *,
    horizon_start_us: int | None,
    sealed: Collection[int] = (),
) -> CatalogChanges:
    """Drop all that is known of a subject and add what its files say now, each of them read whole.

    What counted goes on counting, and what waits for an operator goes on waiting: an operator's decisions outlive a
    definition. What counted in a segment that is sealed stays counted there; anything else for it is parked.
    """
    before: dict[str, list[FragmentEntry]] = defaultdict(list)
    for fragment in known:
        before[fragment.source_uri].append(fragment)
    added = [
        replace(
            fragment,
            state=FragmentState.PARKED
            if fragment.segment_us in sealed
            else _state(fragment, change, before[change.source_uri], horizon_start_us=horizon_start_us),
        )
        for change in changes
        if not change.is_removed
        for fragment in change.fragments
        if not _counted_when_sealed(fragment, before[change.source_uri])
    ]
    return CatalogChanges(
        added=tuple(added),
        dropped=tuple(fragment for fragment in known if fragment.state is not FragmentState.SEALED),
        cut=(),
        released=(),
    )


def _state(
    fragment: FragmentEntry,
    change: FileChange,
    before: Sequence[FragmentEntry],
    *,
    horizon_start_us: int | None,
) -> FragmentState:
    if change.is_released or change.ignores_horizon:
        return FragmentState.ACTIVE
    # Times tell the old fragments apart, unless it is the times that are read differently now: then positions do.
    kept = [old for old in before if old.state is not FragmentState.SEALED]
    states = {old.state for old in kept if _meets_in_time(old, fragment)} or {
        old.state for old in kept if _meets_in_file(old, fragment)
    }
    if FragmentState.ACTIVE in states and len(states) > 1:
        raise RebuildBlockedError(
            f"{change.source_uri} has readings that count and others that are in quarantine or were rejected, and the "
            "new definition puts them into one segment. Release those in quarantine; or blacklist the file and allow "
            "it again: then all of it counts"
        )
    if states:
        # Of what is parked and what was rejected in one segment, an operator is asked again.
        return FragmentState.PARKED if FragmentState.PARKED in states else next(iter(states))
    is_too_late = horizon_start_us is not None and fragment.segment_us < horizon_start_us
    return FragmentState.PARKED if is_too_late else FragmentState.ACTIVE


def _counted_when_sealed(fragment: FragmentEntry, before: Sequence[FragmentEntry]) -> bool:
    return any(old.state is FragmentState.SEALED and old.segment_us == fragment.segment_us for old in before)


def _meets_in_time(old: FragmentEntry, new: FragmentEntry) -> bool:
    return old.first_us <= new.last_us and new.first_us <= old.last_us


def _meets_in_file(old: FragmentEntry, new: FragmentEntry) -> bool:
    return old.first_position <= new.last_position and new.first_position <= old.last_position
