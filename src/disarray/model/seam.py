"""The one rule that says from where a changed file has to be read again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.model.fingerprints import BLOCK_BYTES, ORIGIN, Checkpoint, Fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SAMPLED_BLOCKS = 3


class Change(StrEnum):
    """Names for where the seam fell."""

    NEW = "new"
    UNCHANGED = "unchanged"
    GROWN = "grown"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"
    REREAD = "reread"  # asked for, or read under another parse version


class Replacement(StrEnum):
    """What the readings after the seam do to those that stood there before."""

    REPLACES = "replaces"
    NEW_GENERATION = "new_generation"
    TAKES_READINGS_AWAY = "takes_readings_away"


@dataclass(frozen=True, slots=True)
class Seam:
    """Readings at positions before `resume.offset` stay, the rest is read again."""

    change: Change
    resume: Checkpoint

    @property
    def position(self) -> int:
        """The first byte that is read again."""
        return self.resume.offset


NEW_FILE = Seam(Change.NEW, ORIGIN)
READ_AGAIN = Seam(Change.REREAD, ORIGIN)


def locate_seam(
    stored: Fingerprint,
    size: int,
    *,
    is_same: Callable[[int], bool],
    thorough: bool,
    whole: bool,
    back_correction_us: int,
) -> Seam:
    """Find the seam of a file that is now `size` bytes long.

    `is_same(block)` reads and hashes one stored block's extent; it is asked for as few blocks as the rule allows.
    A grown file is asked for its first block, its last and a few sampled ones, unless `thorough`; a change deep in
    the prefix of a growing file is therefore found at the latest by the thorough check of the quiet file. A file
    that did not grow is always checked whole: nothing cheaper can tell a rewrite in place.
    """
    differing = _first_difference(stored, size, is_same=is_same, thorough=thorough)
    if differing is None:
        change = Change.GROWN if size > stored.size else Change.UNCHANGED
        restart = whole and change is Change.GROWN
        return Seam(change, ORIGIN if restart else stored.end)
    only_cut = size < stored.size and stored.block_extent(differing)[1] > size
    change = Change.TRUNCATED if only_cut else Change.REWRITTEN
    if whole:
        return Seam(change, ORIGIN)
    tail_differs = size < stored.size or not is_same(len(stored.hashes) - 1)
    before_us = None
    if tail_differs and back_correction_us and stored.last_us is not None:
        before_us = stored.last_us - back_correction_us
    return Seam(change, _last_checkpoint(stored, differing * BLOCK_BYTES, before_us))


def judge_replacement(
    stored: Fingerprint, seam: Seam, *, kept: int, first_us: int | None, last_us: int | None
) -> Replacement:
    """Say what a new version does to the old readings, from its own totals: nothing may vanish unnoticed."""
    if seam.change not in (Change.TRUNCATED, Change.REWRITTEN):
        return Replacement.REPLACES
    if stored.first_us is None or stored.last_us is None:
        return Replacement.REPLACES
    if first_us is None or last_us is None:
        return Replacement.TAKES_READINGS_AWAY
    if seam.position == 0 and first_us > stored.last_us:
        return Replacement.NEW_GENERATION
    covers = first_us <= stored.first_us and last_us >= stored.last_us
    return Replacement.REPLACES if covers and kept >= stored.counts.kept else Replacement.TAKES_READINGS_AWAY


def sampled_blocks(stored: Fingerprint) -> tuple[int, ...]:
    """Blocks to check on growth: others for every version of the content, the same on every attempt."""
    count = len(stored.hashes)
    draws = (int(stored.content_hash[at * 8 : at * 8 + 8], 16) for at in range(SAMPLED_BLOCKS))
    return tuple(sorted({draw % count for draw in draws})) if count else ()


def _first_difference(
    stored: Fingerprint, size: int, *, is_same: Callable[[int], bool], thorough: bool
) -> int | None:
    comparable = [index for index in range(len(stored.hashes)) if stored.block_extent(index)[1] <= size]
    if size > stored.size and comparable and not thorough:
        last = comparable[-1]
        suspects = sorted({0, last, *sampled_blocks(stored)})
        differing = [index for index in suspects if not is_same(index)]
        if not differing:
            return None
        if differing == [last]:
            # An instrument that amends its tail: the blocks before it were sampled, so walking left is enough.
            first = last
            while first > 0 and not is_same(first - 1):
                first -= 1
            return first
    found = _first(comparable, is_same)
    if found is None and size < stored.size:
        return len(comparable)
    return found


def _first(blocks: Iterable[int], is_same: Callable[[int], bool]) -> int | None:
    return next((index for index in blocks if not is_same(index)), None)


def _last_checkpoint(stored: Fingerprint, offset: int, before_us: int | None) -> Checkpoint:
    for point in (stored.end, *reversed(stored.checkpoints)):
        early_enough = before_us is None or point.last_us is None or point.last_us < before_us
        if point.offset <= offset and early_enough:
            return point
    return ORIGIN
