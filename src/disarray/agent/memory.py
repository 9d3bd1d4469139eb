"""All known files in memory, by folder, so that an idle scan compares without touching the disk twice."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from disarray.agent.records import Candidate, Finding, Known, inode_of
from disarray.errors import DisarrayError
from disarray.model.description.dataset import SubjectKind
from disarray.model.matching import match_file
from disarray.model.uris import file_uri

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from disarray.agent.state import StateFile
    from disarray.model.description.dataset import Dataset

# By name: what is known, or None for a file that belongs to no dataset or was refused.
Folder = dict[str, Known | None]


class Memory:
    """What the last scans found; the state file is its copy on disk."""

    def __init__(self, state: StateFile, datasets: Sequence[Dataset]) -> None:
        self._state = state
        self._folders: dict[str, Folder] = {}
        self._absent_us: dict[str, dict[str, int]] = {}  # folder → name → since when
        self._round: Iterator[tuple[str, str, Known]] = iter(())
        self._load(datasets)

    def folder(self, path: str) -> Folder:
        """The files of one folder."""
        return self._folders.setdefault(path, {})

    def remember(self, finding: Finding) -> None:
        """Keep a finding that is already safe on disk."""
        known = finding.known
        if known.subject is not None:
            known.subject = sys.intern(known.subject)
        self.folder(finding.folder)[finding.name] = known

    def remember_stranger(self, folder: str, name: str) -> None:
        """Do not ask again to which dataset a file belongs."""
        self.folder(folder)[name] = None

    def remember_refused(self, candidate: Candidate, now_us: int) -> None:
        """Look into a refused file again only when it changes; in memory alone, so a new start tries again."""
        try:
            status = os.stat(candidate.path, follow_symlinks=False)  # noqa: PTH116 - no Path for a path at hand
        except OSError:
            return
        self.folder(candidate.folder)[candidate.name] = Known(
            dataset=candidate.dataset.name,
            subject=None,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            inode=inode_of(status),
            changed_us=now_us,
            announced_us=now_us,
            hashed_us=now_us,
            is_quiet=True,
        )

    def note_absent_files(self, folder: str, present: Collection[str], *, now_us: int) -> None:
        """Start to wait for the return of files that a complete listing does not show."""
        files = self.folder(folder)
        former = self._absent_us.pop(folder, {})
        absent = {}
        for name in [name for name in files if name not in present]:
            if files[name] is None:
                del files[name]
            else:
                absent[name] = former.get(name, now_us)
        if absent:
            self._absent_us[folder] = absent

    def misses_files_of(self, folder: str) -> bool:
        """Whether files of this folder were not there when last looked for."""
        return folder in self._absent_us

    def note_absent_folders(
        self, root: str, visited: Collection[str], *, unreadable: Collection[str], now_us: int
    ) -> None:
        """The same for whole folders; those below one that cannot be read are not known to be absent."""
        below = f"{root.rstrip('/')}/"
        for folder in [path for path in self._folders if path not in visited and path.startswith(below)]:
            if not any(folder == path or folder.startswith(f"{path}/") for path in unreadable):
                self.note_absent_files(folder, (), now_us=now_us)

    def is_absent(self, folder: str, name: str) -> bool:
        """Whether a file was not there when last looked for."""
        return name in self._absent_us.get(folder, ())

    def drop_long_absent(self, now_us: int, forget_after_us: int) -> None:
        """Forget what did not return; nothing is removed from the pipeline by that."""
        gone = [
            (folder, name)
            for folder, names in self._absent_us.items()
            for name, since_us in names.items()
            if now_us - since_us >= forget_after_us
        ]
        for folder, name in gone:
            del self._absent_us[folder][name]
            del self._folders[folder][name]
            if not self._absent_us[folder]:
                del self._absent_us[folder]
            if not self._folders[folder]:
                del self._folders[folder]
        if gone:
            self._state.forget(f"{folder.rstrip('/')}/{name}" for folder, name in gone)

    def next_round(self, count: int) -> Iterator[tuple[str, str, Known]]:
        """The next few files of an endless round through all of them."""
        for _ in range(count):
            item = next(self._round, None)
            if item is None:
                self._round = self.all_files()
                return
            yield item

    def strangers(self) -> list[str]:
        """Paths of the files that are there and were given to no dataset."""
        return [
            f"{folder.rstrip('/')}/{name}"
            for folder, files in self._folders.items()
            for name, known in files.items()
            if known is None
        ]

    def nameless(self) -> list[str]:
        """Paths of the files that are there, are complete, and have no subject."""
        return [
            f"{folder.rstrip('/')}/{name}"
            for folder, name, known in self.all_files()
            if known.subject is None and known.is_quiet and not self.is_absent(folder, name)
        ]

    def all_files(self) -> Iterator[tuple[str, str, Known]]:
        """Every file of a dataset that is known, also those that were not there lately."""
        for folder in list(self._folders):
            for name, known in list(self._folders.get(folder, {}).items()):
                if known is not None:
                    yield folder, name, known

    def _load(self, datasets: Sequence[Dataset]) -> None:
        """Take over what is known, as far as files are still matched as they were."""
        rules = {dataset.name: dataset.parse_version for dataset in datasets}
        former = self._state.rules()
        outdated = []
        for path, known in self._state.files():
            folder, _, name = path.rpartition("/")
            if _is_matched_alike(
                path, known, datasets, is_same_rule=former.get(known.dataset) == rules.get(known.dataset)
            ):
                known.dataset = sys.intern(known.dataset)
                known.subject = known.subject and sys.intern(known.subject)
                self.folder(folder or "/")[name] = known
            else:
                outdated.append(path)
        self._state.forget(outdated)
        self._state.set_rules(rules)


def _is_matched_alike(path: str, known: Known, datasets: Sequence[Dataset], *, is_same_rule: bool) -> bool:
    try:
        match = match_file(file_uri(path), datasets)
    except DisarrayError:
        return False
    if match is None or match.dataset.name != known.dataset:
        return False
    return (
        is_same_rule if match.dataset.subject.kind is SubjectKind.PREAMBLE else match.subject == known.subject
    )
