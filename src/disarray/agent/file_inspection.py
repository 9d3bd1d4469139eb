"""Look into one file: whose is it, what does it hold, and what is there to say about it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from disarray.agent.hashing import ContentHash, hash_file
from disarray.agent.preamble import read_subject
from disarray.agent.records import Candidate, Concern, Finding, Known, inode_of
from disarray.errors import UnreadableFileError, UnsafePathError
from disarray.kernels.reading.opening import open_beneath
from disarray.model.fingerprints import MAX_FILE_BYTES
from disarray.model.notification import Notification, Reason
from disarray.model.uris import file_uri

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.agent.hashing import Allowance

MAX_URI_BYTES = 2_048


@dataclass(frozen=True, slots=True)
class Begun:
    """The part of a large file that was hashed, and the file as it was then."""

    content: ContentHash
    inode: int
    size: int
    mtime_ns: int

    def goes_on(self, status: os.stat_result, *, is_whole: bool) -> bool:
        """Whether hashing can go on from here; where every byte has to be read, only if no byte was written since."""
        if inode_of(status) != self.inode or status.st_size < self.size:
            return False
        return not is_whole or (status.st_size, status.st_mtime_ns) == (self.size, self.mtime_ns)


def take(
    candidate: Candidate,
    *,
    former_content: Callable[[str], ContentHash | None],
    now_us: int,
    is_backlog: bool = False,
    is_final: bool = False,
    begun: Begun | None = None,
    allowance: Allowance | None = None,
) -> Finding:
    """What is known of a file after a look into it.

    `is_backlog`: the file was there before the agent, so its age is its own and not that of the first look.
    `is_final`: nothing more will come, so every file counts as quiet. `begun`: what an earlier look has hashed when
    its `allowance` was used up. `OSError` and `EOFError` mean: not now; `HashingPausedError`: not all of it now; a
    `DisarrayError` means: not this file.
    """
    uri = file_uri(candidate.path)
    if len(uri) > MAX_URI_BYTES:
        raise UnsafePathError(f"its uri has {len(uri)} bytes, more than {MAX_URI_BYTES}; shorten the path")
    known = candidate.known
    if candidate.concern is Concern.REMINDER:
        assert known is not None
        content = former_content(candidate.path)
        reminded = replace(known, announced_us=now_us)
        return _finding(candidate, reminded, uri, content=None, announced=content)

    descriptor = open_beneath(candidate.path, candidate.dataset.roots)
    try:
        status = os.fstat(descriptor)
        former = former_content(candidate.path) if known is not None else None
        is_grown = known is not None and status.st_size > known.size and inode_of(status) == known.inode
        is_whole = candidate.concern is not Concern.CHANGED or not is_grown
        if status.st_size > MAX_FILE_BYTES:
            raise UnreadableFileError(
                f"it has {status.st_size:,} bytes, more than {MAX_FILE_BYTES:,}. Cut it into several files"
            )
        start = None if is_whole else former
        if begun is not None and begun.goes_on(status, is_whole=is_whole and known is not None):
            start = begun.content
        hashed = hash_file(descriptor, start, allowance=allowance)
        subject = candidate.subject or read_subject(
            descriptor, hashed.content.size, uri=uri, dataset=candidate.dataset
        )
    finally:
        os.close(descriptor)

    is_same = known is not None and former == hashed.content and subject == known.subject
    if is_same:
        assert known is not None
        changed_us = known.changed_us
    else:
        changed_us = min(now_us, status.st_mtime_ns // 1_000) if is_backlog else now_us
    is_quiet = is_final or (is_same and known is not None and known.is_quiet)
    # Old enough, and nothing of it is other than it was: no more is to be expected of it.
    if (is_same or is_backlog) and now_us - changed_us >= candidate.dataset.quiet_after_us:
        is_quiet = True
    now_known = Known(
        dataset=candidate.dataset.name,
        subject=subject,
        size=hashed.content.size,
        mtime_ns=status.st_mtime_ns,
        inode=inode_of(status),
        changed_us=changed_us,
        announced_us=known.announced_us if known is not None else now_us,
        hashed_us=now_us if is_whole or known is None else known.hashed_us,
        is_quiet=is_quiet,
    )
    is_news = not is_same or (known is not None and is_quiet and not known.is_quiet)
    announced = hashed.content if is_news or candidate.concern is Concern.REVIEW else None
    if announced is not None:
        now_known.announced_us = now_us
    return _finding(
        candidate, now_known, uri, content=hashed.content, announced=announced, bytes_read=hashed.bytes_read
    )


def _finding(
    candidate: Candidate,
    known: Known,
    uri: str,
    *,
    content: ContentHash | None,
    announced: ContentHash | None,
    bytes_read: int = 0,
) -> Finding:
    notification = None
    if announced is not None and known.subject is not None:
        notification = Notification(
            source_uri=uri,
            subject_key=known.subject,
            reason=Reason.QUIET if known.is_quiet else Reason.FILE_NOTIFICATION,
            metadata={"content_hash": announced.text, "dataset": known.dataset, "size": announced.size},
        )
    return Finding(candidate.folder, candidate.name, known, content, notification, bytes_read)
