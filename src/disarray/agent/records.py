"""What an agent knows of each file, kept small: there may be a hundred thousand of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from disarray.agent.hashing import ContentHash
    from disarray.model.description.dataset import Dataset
    from disarray.model.notification import Notification


@dataclass(slots=True)
class Known:
    """A file as it was when last taken in; hashes are in the state file, where an idle scan needs none of them."""

    dataset: str
    subject: str | None  # None: named in a preamble that is not complete yet
    size: int
    mtime_ns: int
    inode: int
    changed_us: int
    announced_us: int
    hashed_us: int  # when all of its bytes were last read
    is_quiet: bool

    def is_like(self, status: os.stat_result) -> bool:
        """Whether the file looks as it did."""
        return (
            self.size == status.st_size
            and self.mtime_ns == status.st_mtime_ns
            and self.inode == inode_of(status)
        )


def inode_of(status: os.stat_result) -> int:
    """The inode as SQLite can keep it; some file systems use all 64 bits."""
    return status.st_ino & 0x7FFF_FFFF_FFFF_FFFF


class Concern(IntEnum):
    """Why a file is looked into, most urgent first."""

    CHANGED = 0
    NEW = 1
    QUIET = 2
    REVIEW = 3  # hashed whole again
    REMINDER = 4  # announced again, in case that the first time was lost


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that has to be looked into."""

    concern: Concern
    folder: str
    name: str
    dataset: Dataset
    subject: str | None
    known: Known | None
    mtime_ns: int

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.folder.rstrip('/')}/{self.name}"

    @property
    def urgency(self) -> tuple[int, int]:
        """For sorting: the concern, and within it the newest first."""
        return self.concern, -self.mtime_ns


@dataclass(frozen=True, slots=True)
class Finding:
    """What looking into a file gave: what is known now, and what has to be said about it."""

    folder: str
    name: str
    known: Known
    content: ContentHash | None  # None: as before
    notification: Notification | None
    bytes_read: int = 0

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.folder.rstrip('/')}/{self.name}"
