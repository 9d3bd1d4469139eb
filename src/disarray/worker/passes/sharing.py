"""Files with the same bytes share their fragments: the readings are kept once, whatever the key of the dataset says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.control import catalog
from disarray.model.description.read_spec import KeyKind
from disarray.model.fingerprints import Tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.model.catalog_changes import FileChange
    from disarray.model.description.dataset import Dataset
    from disarray.model.fingerprints import Fingerprint
    from disarray.model.fragments import FragmentEntry

# What a file says: its bytes, and whether its unterminated last line is among what was read of them.
_Content = tuple[str, bool]


def share_fragments(
    connection: Connection,
    dataset: Dataset,
    subject_key: str,
    *,
    changes: Sequence[FileChange],
    fingerprints: Mapping[str, Fingerprint],
    only_among_them: bool = False,
) -> list[FileChange]:
    """The changes, with those of copies naming the fragments of the file that was there first.

    What that file counted for in segments that were sealed since, the copy counted for too: it is never kept twice.

    `fingerprints` has that of each file that was read now. Which of the copies was there first does not matter: of
    entries that share a row group, the scan takes the one with the greatest uri. What the catalog knows is left alone
    where all of it is about to be replaced.
    """
    contents = {uri: _content(fingerprint) for uri, fingerprint in fingerprints.items()}
    known, generations = _known_copies(
        connection, dataset, subject_key, contents=set() if only_among_them else set(contents.values())
    )
    # Read whole, a file's fragments say all that it says: they can stand for those of every copy in the batch.
    whole = {
        contents[change.source_uri]: change
        for change in sorted(changes, key=lambda change: change.source_uri.encode())
        if change.source_uri in contents and change.seam_position == 0 and not change.is_removed
    }
    originals = {
        change.source_uri: original
        for change in changes
        if change.source_uri in contents
        and not change.is_removed
        and (original := _original(change, known.get(contents[change.source_uri], []), dataset)) is not None
    }
    fragments = _stored_fragments(connection, dataset, subject_key, sorted(set(originals.values())))
    shared = []
    for change in changes:
        original = originals.get(change.source_uri)
        twin = whole.get(contents[change.source_uri]) if change.source_uri in contents else None
        if original is not None:
            newest = [each for each in fragments[original] if each.generation == generations[original]]
            shared.append(_copy(change, newest))
        elif twin is not None and twin is not change and not change.is_removed:
            shared.append(_copy(change, twin.fragments))
        else:
            shared.append(change)
    return shared


def _known_copies(
    connection: Connection, dataset: Dataset, subject_key: str, *, contents: set[_Content]
) -> tuple[dict[_Content, list[str]], dict[str, int]]:
    """Files that say the same and whose readings are in, the greatest uri last; and the generation of each."""
    hashes = sorted({content_hash for content_hash, _ in contents})
    same = catalog.find_same_content(connection, dataset.name, subject_key, content_hashes=hashes)
    prints = catalog.load_fingerprints(connection, [uri for uris in same.values() for uri in uris])
    found: dict[_Content, list[str]] = {}
    for uris in same.values():
        for uri in uris:
            # What is kept of a blacklisted file may have been read under another definition.
            if prints[uri].parse_version == dataset.parse_version:
                found.setdefault(_content(prints[uri]), []).append(uri)
    return found, {uri: fingerprint.generation for uri, fingerprint in prints.items()}


def _stored_fragments(
    connection: Connection, dataset: Dataset, subject_key: str, source_uris: Sequence[str]
) -> dict[str, list[FragmentEntry]]:
    """What files say here, or said before they were blacklisted: allowed again, they must not be kept twice."""
    here = dataset.name, subject_key
    known = catalog.load_file_fragments(connection, source_uris)
    withdrawn = catalog.load_withdrawn_fragments(connection, source_uris)
    return {
        uri: [
            *known.get(uri, {}).get(here, ()),
            *(each.entry for each in withdrawn.get(uri, ()) if (each.dataset, each.subject_key) == here),
        ]
        for uri in source_uris
    }


def _original(change: FileChange, copies: Sequence[str], dataset: Dataset) -> str | None:
    """The file whose fragments stand for what was read now."""
    if change.source_uri in copies and dataset.key.kind is not KeyKind.NONE:
        # Read again on purpose, perhaps because what is kept of it is damaged: what was read now counts.
        return None
    others = [uri for uri in copies if uri != change.source_uri]
    return others[-1] if others else None


def _content(fingerprint: Fingerprint) -> _Content:
    return fingerprint.content_hash, fingerprint.tail is Tail.TAKEN


def _copy(change: FileChange, fragments: Iterable[FragmentEntry]) -> FileChange:
    own = tuple(
        replace(fragment, source_uri=change.source_uri, generation=change.generation, fragment_id=None)
        for fragment in fragments
    )
    return replace(change, seam_position=None if change.seam_position is None else 0, fragments=own)
