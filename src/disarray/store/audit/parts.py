"""Files about several subjects, held against their parts: every line is accounted for in exactly one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control import file_parts
from disarray.control.audit import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection
    from disarray.control.file_parts import PartState, SplitFile
    from disarray.model.fingerprints import Fingerprint

RULE = "parts_add_up_to_their_file"


def find_wrong_parts(connection: Connection) -> Iterator[Finding]:
    """Files whose parts say more or less than they do; parts that something is on its way to are left out."""
    for split in file_parts.list_split_files(connection):
        yield from _wrong_parts(split)


def _wrong_parts(split: SplitFile) -> Iterator[Finding]:
    parent = split.fingerprint
    if parent is None:
        yield Finding(RULE, split.parent_uri, f"it has {len(split.parts)} parts and was never taken in")
        return
    kept = {mark.subject_key: mark.kept for mark in parent.parts if mark.kept}
    # A file that is about one subject by now has parts that say nothing.
    if parent.parts and sum(kept.values()) != parent.counts.kept:
        yield Finding(
            RULE,
            split.parent_uri,
            f"{parent.counts.kept} lines were kept, {sum(kept.values())} of them for a subject",
        )
    for subject in sorted(kept.keys() - {part.subject_key for part in split.parts}):
        yield Finding(
            RULE, split.parent_uri, f"{kept[subject]} lines are about {subject}, which has no part of it"
        )
    for part in split.parts:
        if (why := _what_is_wrong(part, parent, lines=kept.get(part.subject_key, 0))) is not None:
            yield Finding(RULE, part.part_uri, why)


def _what_is_wrong(part: PartState, parent: Fingerprint, *, lines: int) -> str | None:
    """Why a part does not say what its file does; `lines` of the file are about its subject."""
    if not part.is_known:
        return "nothing is known of it but its name"
    is_held_back = part.is_blacklisted or part.is_failed
    if part.is_waiting and not (part.is_queued or is_held_back):
        return "what was read of it waits, and nobody will ever take it in"
    if part.is_waiting or part.is_queued or is_held_back:
        return None
    own = part.fingerprint
    if own is None:
        return f"{lines} lines of its file are about it, and none was ever taken in" if lines else None
    if own.generation < parent.generation and lines:
        return f"it has version {own.generation} of its file, which has {parent.generation}; nothing is on its way"
    if _is_of_the_same_reading(own, parent) and own.counts.kept != lines:
        return f"it has {own.counts.kept} readings, {lines} lines of its file are about it"
    return None


def _is_of_the_same_reading(own: Fingerprint, parent: Fingerprint) -> bool:
    return (
        own.generation == parent.generation
        and own.parse_version == parent.parse_version
        # Read again by itself, a part may know of lines that its file was not read for yet.
        and own.size <= parent.size
    )
