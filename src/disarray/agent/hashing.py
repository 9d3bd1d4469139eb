"""Content hashes that cost what grew: the blocks of the last look are kept, and only the last of them is read again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.kernels.reading.blocks import combine_hashes, hash_block, read_extent
from disarray.model.fingerprints import BLOCK_BYTES, HASH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class ContentHash:
    """A file's size and the hashes of its blocks, side by side."""

    size: int
    blocks: bytes

    @property
    def text(self) -> str:
        """The hash by which the whole system knows this content."""
        return combine_hashes(self.size, _split(self.blocks))


@dataclass(frozen=True, slots=True)
class Hashed:
    """A content hash, and the bytes that were read for it."""

    content: ContentHash
    bytes_read: int


@dataclass(slots=True)
class Allowance:
    """How much may still be read now; a look at one file never takes more, however large the file is."""

    bytes_left: float = float("inf")
    is_stopped: Callable[[], bool] = lambda: False

    def take(self, count: int) -> bool:
        """Whether so many bytes may be read; at least one block may, or a large file would never be read at all."""
        if self.is_stopped() or self.bytes_left <= 0:
            return False
        self.bytes_left -= count
        return True


class HashingPausedError(Exception):
    """The allowance is used up; `begun` is what was hashed, to go on from."""

    def __init__(self, begun: ContentHash) -> None:
        super().__init__(f"{begun.size} bytes are hashed so far")
        self.begun = begun


def hash_file(
    descriptor: int, former: ContentHash | None = None, *, allowance: Allowance | None = None
) -> Hashed:
    """Hash an open file up to its present size; `EOFError` if it shrinks meanwhile.

    With the `former` hash of a file that has grown, its first block and the block where it ended are compared, and
    only what follows is read. A change in between is found when the file is hashed whole: once it is quiet, and in
    the deep rescan.
    """
    allowance = allowance or Allowance()
    size = os.fstat(descriptor).st_size
    blocks = bytearray()
    cost = 0
    if former is not None and 0 < former.size <= size:
        cost, is_prefix = _compare_ends(descriptor, former)
        if is_prefix:
            blocks += former.blocks[: former.size // BLOCK_BYTES * HASH_BYTES]
    position = len(blocks) // HASH_BYTES * BLOCK_BYTES
    while position < size:
        upto = min(position + BLOCK_BYTES, size)
        if not allowance.take(upto - position):
            raise HashingPausedError(ContentHash(position, bytes(blocks)))
        blocks += hash_block(read_extent(descriptor, position, upto))
        cost += upto - position
        position = upto
    return Hashed(ContentHash(size, bytes(blocks)), cost)


def _compare_ends(descriptor: int, former: ContentHash) -> tuple[int, bool]:
    hashes = _split(former.blocks)
    cost = 0
    for index in dict.fromkeys((0, len(hashes) - 1)):
        start, end = index * BLOCK_BYTES, min((index + 1) * BLOCK_BYTES, former.size)
        cost += end - start
        if hash_block(read_extent(descriptor, start, end)) != hashes[index]:
            return cost, False
    return cost, True


def _split(blocks: bytes) -> list[bytes]:
    return [blocks[at : at + HASH_BYTES] for at in range(0, len(blocks), HASH_BYTES)]
