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
        if not part.is_known:
            yield Finding(RULE, part.part_uri, "nothing is known of it but its name")
        elif part.is_waiting and not (part.is_queued or part.is_blacklisted or part.is_failed):
            yield Finding(RULE, part.part_uri, "what was read of it waits, and nobody will ever take it in")
        elif _is_settled(part, parent):
            assert part.fingerprint is not None
            expected, found = kept.get(part.subject_key, 0), part.fingerprint.counts.kept
            if expected != found:
                yield Finding(
                    RULE, part.part_uri, f"it has {found} readings, {expected} lines of its file are about it"
                )


def _is_settled(part: PartState, parent: Fingerprint) -> bool:
    own = part.fingerprint
    return (
        own is not None
        and not (part.is_waiting or part.is_queued or part.is_blacklisted or part.is_failed)
        and own.generation == parent.generation
        and own.parse_version == parent.parse_version
        # Read again by itself, a part may know of lines that its file was not read for yet.
        and own.size <= parent.size
    )
