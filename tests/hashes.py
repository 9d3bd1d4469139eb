"""The content hash of a file, computed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.kernels.reading.blocks import combine_hashes, hash_block
from disarray.model.fingerprints import BLOCK_BYTES

if TYPE_CHECKING:
    from pathlib import Path


def content_hash_of(path: Path) -> str:
    """What the agent and the worker have to find for a file, block after block."""
    content = path.read_bytes()
    blocks = [content[at : at + BLOCK_BYTES] for at in range(0, len(content), BLOCK_BYTES)]
    return combine_hashes(len(content), [hash_block(block) for block in blocks])
