"""What lies under a root, listed without being led astray and without giving up at the first trouble."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from fnmatch import translate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

# Characters that the queue refuses in a uri, and surrogates: bytes of a name that are no UTF-8.
_UNUSABLE_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(slots=True)
class Troubles:
    """What was left out of a listing, by path."""

    refused: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)


def name_filter(patterns: Sequence[str]) -> Callable[[str], object]:
    """Whether a name is a temporary one, in the case that it is written in or in any other."""
    if not patterns:
        return lambda name: False
    return re.compile("|".join(map(translate, patterns)), re.IGNORECASE).match


def list_folders(
    root: str,
    *,
    familiar: Callable[[str], Container[str]],
    is_ignored: Callable[[str], object],
    others: frozenset[str],
    troubles: Troubles,
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Each folder under a root with its regular files; `OSError` if the root itself cannot be listed.

    A folder that cannot be listed or vanishes is noted and passed over. Links are not followed: whoever may write
    to a share could otherwise make the agent announce any file of the machine. `others` are roots with scans of
    their own. `familiar` gives the names of a folder that passed before: judging names again takes half of the time.
    """
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError as error:
            if folder == root:
                raise
            if not isinstance(error, FileNotFoundError):
                troubles.unreadable[folder] = error.strerror or str(error)
            continue
        files = []
        known = familiar(folder)
        for entry in listed:
            if entry.name not in known:
                if is_ignored(entry.name):
                    continue
                if _UNUSABLE_NAME.search(entry.name):
                    troubles.refused[entry.path] = (
                        "a control character, or bytes that are no UTF-8, in its name"
                    )
                    continue
            try:
                if entry.is_file(follow_symlinks=False):
                    files.append(entry)
                elif entry.is_dir(follow_symlinks=False):
                    if entry.path not in others:
                        waiting.append(entry.path)
                else:
                    troubles.refused[entry.path] = f"a {_kind(entry)}; only regular files are read"
            except OSError as error:
                troubles.unreadable[entry.path] = error.strerror or str(error)
        yield folder, files


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "symbolic link"
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISFIFO(mode):
        return "FIFO"
    return "socket" if stat.S_ISSOCK(mode) else "device"
