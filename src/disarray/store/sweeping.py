"""Files of the lake that belong to nobody: written by a run that never got to its commit."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.store.lake import FRAGMENT_FILE, SCRATCH_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.store.lake import Lake


@dataclass(frozen=True, slots=True)
class LakeEntry:
    """A fragment file, or a scratch folder with all that is in it; the path is relative to the lake."""

    path: str
    bytes: int
    is_folder: bool = False


def list_entries(lake: Lake, *, written_before: float) -> Iterator[LakeEntry]:
    """All that has one of our names and was not written to since, in seconds since 1970. The rest is not ours."""
    for top in _children(lake.root):
        if not top.is_dir(follow_symlinks=False):
            continue
        if SCRATCH_FOLDER.fullmatch(top.name):
            newest, size = _content(top)
            if newest < written_before:
                yield LakeEntry(top.name, size, is_folder=True)
            continue
        for shard in _children(top.path):
            for file in _children(shard.path) if shard.is_dir(follow_symlinks=False) else ():
                path = f"{top.name}/{shard.name}/{file.name}"
                if not FRAGMENT_FILE.fullmatch(path) or not file.is_file(follow_symlinks=False):
                    continue
                with suppress(FileNotFoundError):
                    seen = file.stat(follow_symlinks=False)
                    if seen.st_mtime < written_before:
                        yield LakeEntry(path, seen.st_size)


def lake_time(lake: Lake) -> float:
    """What time it is where the lake lies, in seconds since 1970. Its files are dated by that clock and no other."""
    with lake.scratch_folder() as folder:
        return folder.stat().st_mtime


def delete_entry(lake: Lake, entry: LakeEntry) -> None:
    """Delete a file or folder; one that is gone is fine."""
    path = Path(lake.absolute(entry.path))
    if entry.is_folder:
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _children(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def _content(folder: os.DirEntry[str]) -> tuple[float, int]:
    """When anything in a folder was last written, and how much it holds."""
    newest, size = 0.0, 0
    for parent, _, names in os.walk(folder.path):
        for path in (Path(parent), *(Path(parent, name) for name in names)):
            with suppress(FileNotFoundError):
                seen = path.lstat()
                newest = max(newest, seen.st_mtime)
                size += seen.st_size
    return newest, size
