"""Files with the same bytes share their fragments: the readings are kept once, whatever the key of the dataset says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.control import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.model.plan import FileChange, FragmentEntry


def share_fragments(
    connection: Connection,
    dataset: str,
    subject_key: str,
    *,
    changes: Sequence[FileChange],
    content_hashes: Mapping[str, str],
) -> list[FileChange]:
    """The changes, with those of copies naming the fragments of the file that was there first.

    `content_hashes` has the hash of each file that was read now. Which of the copies was there first does not
    matter: of entries that share a row group, the scan takes the one with the greatest uri.
    """
    known = catalog.find_same_content(
        connection, dataset, subject_key, content_hashes=sorted(set(content_hashes.values()))
    )
    originals = catalog.load_file_fragments(connection, sorted(set(known.values())))
    # Read whole, a file's fragments say all that it says: they can stand for those of every copy in the batch.
    whole = {
        content_hashes[change.source_uri]: change
        for change in sorted(changes, key=lambda change: change.source_uri.encode())
        if change.source_uri in content_hashes and change.seam_position == 0 and not change.is_removed
    }
    shared = []
    for change in changes:
        content_hash = content_hashes.get(change.source_uri)
        original = known.get(content_hash) if content_hash is not None else None
        twin = whole.get(content_hash) if content_hash is not None else None
        if change.is_removed:
            shared.append(change)
        elif original is not None and original != change.source_uri:
            shared.append(_copy(change, _newest_generation(originals[original])))
        elif twin is not None and twin is not change:
            shared.append(_copy(change, twin.fragments))
        else:
            shared.append(change)
    return shared


def _copy(change: FileChange, fragments: Iterable[FragmentEntry]) -> FileChange:
    own = tuple(
        replace(fragment, source_uri=change.source_uri, generation=change.generation, fragment_id=None)
        for fragment in fragments
    )
    return replace(change, seam_position=None if change.seam_position is None else 0, fragments=own)


def _newest_generation(fragments: Sequence[FragmentEntry]) -> list[FragmentEntry]:
    newest = max(fragment.generation for fragment in fragments)
    return [fragment for fragment in fragments if fragment.generation == newest]
