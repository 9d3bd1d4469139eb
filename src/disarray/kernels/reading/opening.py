"""Open instrument files without being led astray: no links, no devices, nothing outside the allowed roots."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.errors import UnsafePathError

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO that nobody writes to would hang the worker for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_beneath(path: str, roots: Sequence[str]) -> int:
    """Return a descriptor of a regular file beneath one of the roots; raise `UnsafePathError` for anything else.

    The roots themselves may be reached through links, which are the operator's own. Below a root every step
    is opened relative to the one before and never follows a link, so a swap between look and open changes
    nothing. `FileNotFoundError` passes through: a vanished file is not an unsafe one.
    """
    if any(character in path for character in "\n\r\0"):
        raise UnsafePathError(f"{path!r}: a line break or NUL in a file name is refused; rename the file")
    root, parts = _split(path, roots)
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            deeper = _open_step(part, _DIRECTORY, directory, path)
            os.close(directory)
            directory = deeper
        descriptor = _open_step(parts[-1], _FILE, directory, path)
    finally:
        os.close(directory)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise UnsafePathError(f"{path}: is a {_kind(mode)}, not a regular file; nothing was read")
    return descriptor


def _split(path: str, roots: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    if ".." in Path(path).parts:
        raise UnsafePathError(f"{path}: '..' in a path is refused; write the path out")
    absolute = os.path.abspath(path)  # noqa: PTH100 - Path.absolute keeps "//" and "."
    for root in roots:
        for spelling in {os.path.abspath(root), os.path.realpath(root)}:  # noqa: PTH100
            if absolute != spelling and os.path.commonpath([absolute, spelling]) == spelling:
                return spelling, Path(absolute).relative_to(spelling).parts
    listed = ", ".join(roots) or "none"
    raise UnsafePathError(f"{path}: is not beneath an allowed root ({listed}); add its root to the dataset")


def _open_step(name: str, flags: int, directory: int, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        try:
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        except OSError:
            raise error from None
        if stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and isinstance(error, PermissionError)):
            raise
        raise UnsafePathError(f"{path}: {name!r} is a {_kind(mode)}; only regular files are read") from error


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISLNK, "symbolic link"),
        (stat.S_ISFIFO, "FIFO"),
        (stat.S_ISDIR, "directory"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "character device"),
        (stat.S_ISBLK, "block device"),
    )
    return next((name for test, name in kinds if test(mode)), "special file")
