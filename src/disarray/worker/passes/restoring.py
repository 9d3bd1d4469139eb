"""Files that are allowed again: what they said before they were blacklisted is kept, and counts for what it counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.control import catalog
from disarray.worker.passes.work_order import AllowFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.model.catalog_changes import FileChange
    from disarray.model.description.dataset import Dataset
    from disarray.model.fragments import FragmentEntry
    from disarray.worker.passes.assignment import Assignment


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What files said before they were blacklisted, by uri.

    `usable` fragments can count again as they are. Of `former` ones, read under another definition, only the states
    still mean something.
    """

    usable: Mapping[str, Sequence[FragmentEntry]] = field(default_factory=dict)
    former: Mapping[str, Sequence[FragmentEntry]] = field(default_factory=dict)

    @property
    def fragments(self) -> list[FragmentEntry]:
        """All of them."""
        return [fragment for group in (*self.usable.values(), *self.former.values()) for fragment in group]


def load_withdrawn(
    connection: Connection, dataset: Dataset, subject_key: str, *, changes: Iterable[FileChange]
) -> Withdrawn:
    """What the files said of the subject that are allowed again."""
    uris = [change.source_uri for change in changes if change.is_allowed]
    usable: dict[str, list[FragmentEntry]] = {}
    former: dict[str, list[FragmentEntry]] = {}
    for uri, fragments in catalog.load_withdrawn_fragments(connection, uris).items():
        newest = max(each.entry.generation for each in fragments)
        for each in fragments:
            # What belongs elsewhere by now is read for that, and counts for what it counted here.
            made_as = each.dataset, each.subject_key, each.parse_version
            is_usable = made_as == (dataset.name, subject_key, dataset.parse_version)
            # What an earlier generation said elsewhere can be read nowhere: a commit of its own restores it there.
            if is_usable or each.entry.generation == newest:
                (usable if is_usable else former).setdefault(uri, []).append(each.entry)
    return Withdrawn(usable, former)


def files_with_fragments(connection: Connection, assignments: Iterable[Assignment]) -> frozenset[str]:
    """Of the files that are allowed again, those of which fragments are kept that still can be used."""
    allowed = {
        each.item.file_uri: each
        for each in assignments
        if each.asks_for(AllowFile) and each.dataset is not None
    }
    if not allowed:
        return frozenset()
    found = set()
    withdrawn = catalog.load_withdrawn_fragments(connection, list(allowed))
    known = catalog.load_file_fragments(connection, list(allowed))
    for uri, assignment in allowed.items():
        assert assignment.dataset is not None
        wanted = (*(assignment.dataset_subject or ()), assignment.dataset.parse_version)
        own = withdrawn.get(uri, ())
        newest = max((each.entry.generation for each in own), default=0)
        are_usable = [
            (each.dataset, each.subject_key, each.parse_version) == wanted
            for each in own
            if each.entry.generation == newest
        ]
        # Allowed before a worker had removed it, it says what it said.
        if all(are_usable) and (are_usable or known.get(uri, {}).get(assignment.dataset_subject or ("", ""))):
            found.add(uri)
    return frozenset(found)
