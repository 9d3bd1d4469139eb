"""What is not in: everything under the roots and in the queue that somebody has to look at, as lines and as JSON."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from disarray.cli.support.rendering import counted
from disarray.model.matching import matches_glob
from disarray.model.uris import file_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from disarray.agent.agent import RootsReport
    from disarray.agent.scanner import EmptyGlob
    from disarray.control.connections import Connection

SHOWN_FILES = 20
LISTED_FILES = 1_000
# Only asked where a pattern matches nothing under the roots: files that were there once.
_KNOWN_FILES = 100_000


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """One file that is not in, and why."""

    file: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    """How many files wait for one reason, and the first of them."""

    count: int = 0
    files: tuple[WaitingFile, ...] = ()


# In the order in which a person wants to hear of them.
_SENTENCES: Mapping[str, Callable[[str, str], str]] = {
    "unreadable": lambda file, why: f"{file} cannot be read: {why}. It is tried again by the next run",
    "failed": lambda file, why: (
        f"failed: {file} was given up: {why}. See: disarray files show {shlex.quote(file)}; "
        "then: disarray dead-letters retry, or discard"
    ),
    "retrying": lambda file, why: (
        f"failed: {file} is tried again later: {why}. See: disarray files show {shlex.quote(file)}"
    ),
    "events": lambda dataset, why: f"events of {dataset}: {why}. See: disarray inbox dead-letters",
    "queued": lambda file, _: f"{file} is queued. See: disarray status",
    "parked": lambda file, why: (
        f"{file} is in quarantine, all or part of it. See: disarray quarantine preview {shlex.quote(file)} ({why})"
    ),
    "rejected": lambda file, why: (
        f"{file} gave no reading: {counted(int(why), 'row')} rejected, none kept. "
        f"See: disarray files show {shlex.quote(file)}; mend the dataset, or: disarray files blacklist"
    ),
    "headerless": lambda file, why: (
        f"{file} gave no reading: none of its {counted(int(why), 'line')} is the header that its dataset waits for. "
        f"See: disarray formats try {shlex.quote(file)}; mend the dataset, or its 'files'"
    ),
    "refused": lambda file, why: f"{file} is refused: {why.removeprefix(f'{file_uri(file)} ')}",
    "unmatched": lambda file, _: (
        f"{file} matches no dataset. Widen 'files' of one, add one (disarray formats try {shlex.quote(file)}), "
        "or name it in agent.ignore"
    ),
}


@dataclass(frozen=True, slots=True)
class PlantState:
    """All that waits in a plant, by reason."""

    waiting: Mapping[str, WaitingFiles] = field(default_factory=dict)
    empty_globs: Sequence[EmptyGlob] = ()
    is_sent: bool = True

    @property
    def is_clear(self) -> bool:
        """Whether nothing waits for anybody."""
        return self.is_sent and not self.empty_globs and not any(each.count for each in self.waiting.values())

    def count(self, *kinds: str) -> int:
        """How many files wait for these reasons."""
        return sum(self.waiting[kind].count for kind in kinds)


def plant_state(connection: Connection, roots: RootsReport) -> PlantState:
    """What a look at the roots and the database say together."""
    from disarray.control.raw_events import count_raw_events
    from disarray.control.status import list_waiting

    found: dict[str, WaitingFiles] = dict.fromkeys(_SENTENCES, WaitingFiles())
    rows = list_waiting(connection, limit=LISTED_FILES)
    for kind in {row.kind for row in rows}:
        of_kind = [row for row in rows if row.kind == kind]
        files = tuple(WaitingFile(row.source_uri, row.message) for row in of_kind)
        found[kind] = WaitingFiles(of_kind[0].files, files)
    inboxes = [each for each in count_raw_events(connection) if each.dead or each.pending]
    found["events"] = WaitingFiles(
        sum(each.dead + each.pending for each in inboxes),
        tuple(
            WaitingFile(each.dataset, f"{each.dead:,} were given up, {each.pending:,} wait in the inbox")
            for each in inboxes
        ),
    )
    found["unreadable"] = _bounded(roots.unreadable)
    found["refused"] = _bounded(roots.refused)
    found["unmatched"] = _bounded(dict.fromkeys(roots.unmatched))
    return PlantState(found, _never_matched(connection, roots.empty_globs), roots.is_sent)


def described(state: PlantState) -> Iterator[str]:
    """A line for each file, with what to run; no more than a screenful of any kind."""
    for kind, sentence in _SENTENCES.items():
        waiting = state.waiting[kind]
        for each in waiting.files[:SHOWN_FILES]:
            yield sentence(each.file, (each.message or "no reason was noted").rstrip("."))
        if waiting.count > SHOWN_FILES:
            yield f"{counted(waiting.count - SHOWN_FILES, 'more file')} {kind}; --json lists {LISTED_FILES:,}"
    for empty in state.empty_globs:
        yield (
            f"no file ever matched {empty.glob!r} of dataset '{empty.dataset.name}' below "
            f"{', '.join(empty.dataset.roots)}. Mend 'files' or 'roots', or take the pattern out"
        )
    if not state.is_sent:
        yield "not everything that was found could be announced; run it again"


def document(state: PlantState) -> dict[str, Any]:
    """The same for programs."""
    waits: dict[str, Any] = {
        kind: {
            "count": each.count,
            "files": [{"file": one.file, "message": one.message} for one in each.files],
        }
        for kind, each in state.waiting.items()
    }
    globs = [
        {"dataset": empty.dataset.name, "glob": empty.glob, "roots": list(empty.dataset.roots)}
        for empty in state.empty_globs
    ]
    return waits | {"empty_globs": {"count": len(globs), "globs": globs}}


def _bounded(reasons: Mapping[str, str | None]) -> WaitingFiles:
    files = sorted(reasons.items())
    return WaitingFiles(len(files), tuple(WaitingFile(*each) for each in files[:LISTED_FILES]))


def _never_matched(connection: Connection, globs: Sequence[EmptyGlob]) -> list[EmptyGlob]:
    """Without those whose files were taken in and moved away since."""
    from disarray.control.files import list_files

    if not globs:
        return []
    known = [(file.dataset, file.source_uri) for file in list_files(connection, limit=_KNOWN_FILES)]
    return [
        empty
        for empty in globs
        if not any(
            dataset == empty.dataset.name and matches_glob(uri, empty.dataset.roots, empty.glob)
            for dataset, uri in known
        )
    ]
