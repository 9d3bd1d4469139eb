"""Block hashes of a file's bytes: cheap to extend, and enough to tell where two versions part.

Needs no Arrow: the agent on a lab PC computes the same content hash as the worker.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from blake3 import blake3

from disarray.model.fingerprints import BLOCK_BYTES, HASH_BYTES, STRIDE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(slots=True)
class ReadCost:
    """What a read has cost so far; the bound on growth is asserted from these."""

    bytes_read: int = 0
    bytes_hashed: int = 0


def hash_block(data: bytes | memoryview) -> bytes:
    """The hash of one block."""
    return blake3(data).digest(length=HASH_BYTES)


def combine_hashes(size: int, hashes: Sequence[bytes]) -> str:
    """The content hash: of the size and all block hashes, so that growth never re-reads the prefix for it."""
    return blake3(b"%d:%d:" % (BLOCK_BYTES, size) + b"".join(hashes)).hexdigest()


@dataclass(slots=True)
class BlockReader:
    """Reads an open file once, from a block's start to a fixed end, and hashes what passes."""

    descriptor: int
    start: int
    end: int
    cost: ReadCost
    hashes: list[bytes] = field(default_factory=list)

    def __iter__(self) -> Iterator[bytes]:
        """Yield pieces that end at the next multiple of the stride: the places where checkpoints are taken."""
        position = self.start
        while position < self.end:
            upto = min((position // STRIDE_BYTES + 1) * STRIDE_BYTES, self.end)
            piece = read_extent(self.descriptor, position, upto)
            self.cost.bytes_read += len(piece)
            self._hash(piece)
            yield piece
            position = upto

    def _hash(self, piece: bytes) -> None:
        view = memoryview(piece)
        for at in range(0, len(piece), BLOCK_BYTES):
            self.hashes.append(hash_block(view[at : at + BLOCK_BYTES]))
        self.cost.bytes_hashed += len(piece)


def read_extent(descriptor: int, start: int, end: int) -> bytes:
    """Exactly these bytes; `EOFError` if the file has become shorter meanwhile."""
    piece = os.pread(descriptor, end - start, start)
    while len(piece) < end - start:
        more = os.pread(descriptor, end - start - len(piece), start + len(piece))
        if not more:
            raise EOFError(f"the file ends at byte {start + len(piece)}, {end} were there when it was opened")
        piece += more
    return piece
