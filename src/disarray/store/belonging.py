"""Where files belong: what the definitions of a project say of every file that was ever taken in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control import definitions, moving_files
from disarray.control.moving_files import Move
from disarray.errors import DatasetOverlapError, SubjectMissingError
from disarray.model.description.dataset import SubjectKind
from disarray.model.matching import match_file, subject_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from disarray.control.connections import Connection
    from disarray.control.moving_files import KnownFile
    from disarray.model.description.dataset import Dataset

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Belonging:
    """A file that was taken in, and the dataset and subject that it is about; None, and why, where none takes it.

    The subject alone is None where only a look into the file can tell.
    """

    file: KnownFile
    dataset: str | None
    subject_key: str | None
    problem: str | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether it counts for another dataset or subject than the one that it is about."""
        if self.dataset is None:
            return False
        if self.subject_key is None:
            return True
        here = self.dataset, self.subject_key
        # One that was announced without its dataset and taken in is known by its readings.
        known = self.file.dataset or self.dataset, self.file.subject_key
        return known != here or any(home != here for home in self.file.homes)

    @property
    def is_on_its_way(self) -> bool:
        """Whether it is queued, or waits for the rebuild of its subject: either brings it where it belongs."""
        return self.file.is_queued or self.file.is_rebuild_pending

    @property
    def belongs_to(self) -> str:
        """What it is about, as a person reads it."""
        return f"{self.dataset}/{self.subject_key or 'the subject that its preamble names'}"

    @property
    def counts_for(self) -> str:
        """Where it counts now, as a person reads it."""
        homes = self.file.homes or ((self.file.dataset or "?", self.file.subject_key),)
        return " and ".join(f"{dataset}/{subject}" for dataset, subject in homes)


def belonging_files(connection: Connection, datasets: Collection[Dataset]) -> Iterator[Belonging]:
    """Every file that was taken in and is not blacklisted, with what its path and content say."""
    known = list(datasets)
    by_content = any(dataset.subject.kind is SubjectKind.PREAMBLE for dataset in known)
    for file in moving_files.list_known_files(connection, with_fingerprints=by_content):
        yield _belonging(file, known)


def queue_moves(connection: Connection, datasets: Collection[Dataset], *, is_asked_for: bool = False) -> int:
    """Queue every file that is about another dataset or subject than it counts for; how many there are.

    Looks at all files, so it is done where the rules that files are matched by changed since it was last done, or
    somebody asks. A subject whose rebuild is pending moves its files with it.
    """
    if moving_files.count_moving_files(connection):
        # An item that was given up comes back: a move that was begun is brought to its end.
        definitions.queue_rebuilds(connection, dataset=None, subject_key=None)
    rules = matching_rules(datasets)
    if not is_asked_for and moving_files.matching_rules(connection) == rules:
        return 0
    unmatched: list[str] = []
    moved: list[Move] = []
    for each in belonging_files(connection, datasets):
        if each.dataset is None:
            unmatched.append(each.file.source_uri)
        elif each.is_elsewhere and not (
            each.file.is_rebuild_pending and each.dataset == each.file.dataset and len(each.file.homes) <= 1
        ):
            subject = each.subject_key or each.file.subject_key
            moved.append(Move(each.file.source_uri, subject, each.dataset))
    for start in range(0, len(moved), _BATCH):
        moving_files.queue_moves(connection, moved[start : start + _BATCH])
    # Last: a run that is stopped before this begins again.
    moving_files.note_matching(connection, rules, unmatched_uris=unmatched)
    return len(moved)


def matching_rules(datasets: Collection[Dataset]) -> str:
    """All that decides which dataset and subject a file belongs to, as one text."""
    rules = [
        [
            dataset.name,
            sorted(dataset.roots),
            sorted(dataset.files),
            dataset.subject.kind,
            dataset.subject.text,
        ]
        for dataset in sorted(datasets, key=lambda dataset: dataset.name)
    ]
    return json.dumps(rules)


def _belonging(file: KnownFile, datasets: list[Dataset]) -> Belonging:
    try:
        match = match_file(file.source_uri, datasets)
        if match is None:
            return Belonging(file, None, None, "no dataset takes it any more")
        if match.subject is None and match.dataset.name != file.dataset:
            return Belonging(file, match.dataset.name, None)
        fields = {} if file.fingerprint is None else dict(file.fingerprint.end.state.fields)
        subject = subject_of(file.source_uri, match, fields)
    except (DatasetOverlapError, SubjectMissingError) as error:
        return Belonging(file, None, None, str(error))
    return Belonging(file, match.dataset.name, subject)
