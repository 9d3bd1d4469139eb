from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.model.fingerprints import (
    BLOCK_BYTES,
    ORIGIN,
    STRIDE_BYTES,
    Checkpoint,
    Fingerprint,
    LineCounts,
    Tail,
)
from disarray.model.seam import Change, Replacement, Seam, judge_replacement, locate_seam, sampled_blocks

if TYPE_CHECKING:
    from collections.abc import Collection

BLOCKS = 40
SIZE = BLOCKS * BLOCK_BYTES - 100
HOUR_US = 3_600_000_000


def stored(**changes: object) -> Fingerprint:
    """A file of 40 blocks, one hour a stride, whose last line waits."""
    points = tuple(
        Checkpoint(offset=at * STRIDE_BYTES - 10, line=at * 1000, first_us=0, last_us=at * HOUR_US)
        for at in range(1, SIZE // STRIDE_BYTES + 1)
    )
    fingerprint = Fingerprint(
        size=SIZE,
        hashes=tuple(bytes([at]) * 16 for at in range(BLOCKS)),
        content_hash="0000000b" + "00000011" + "0000001d" + "0" * 40,
        checkpoints=points,
        end=Checkpoint(offset=SIZE - 7, line=10_000, first_us=0, last_us=10 * HOUR_US),
        counts=LineCounts(seen=10_000, kept=9_999, waiting=1),
        first_us=0,
        last_us=10 * HOUR_US,
        parse_version="1",
        tail=Tail.WAITING,
    )
    return replace(fingerprint, **changes)  # type: ignore[arg-type]


@dataclass
class Disk:
    """The file as it is now: which blocks differ, and which were looked at."""

    differing: Collection[int] = ()
    asked: int = 0

    def is_same(self, block: int) -> bool:
        self.asked += 1
        return block not in self.differing


def locate(disk: Disk, size: int, *, thorough: bool = False, whole: bool = False, window: int = 0) -> Seam:
    return locate_seam(
        stored(), size, is_same=disk.is_same, thorough=thorough, whole=whole, back_correction_us=window
    )


@pytest.mark.parametrize(
    ("name", "size", "differing", "change", "position"),
    [
        ("as it was", SIZE, [], Change.UNCHANGED, SIZE - 7),
        ("appended", SIZE + 1, [], Change.GROWN, SIZE - 7),
        ("cut in block 21", 21 * BLOCK_BYTES + 5, [], Change.TRUNCATED, 5 * STRIDE_BYTES - 10),
        ("cut at a block's start", 20 * BLOCK_BYTES, [], Change.TRUNCATED, 5 * STRIDE_BYTES - 10),
        ("emptied", 0, [], Change.TRUNCATED, 0),
        ("one byte changed in block 9", SIZE, [9], Change.REWRITTEN, 2 * STRIDE_BYTES - 10),
        ("first block changed", SIZE, [0], Change.REWRITTEN, 0),
        ("first block changed and grown", SIZE + 5, [0], Change.REWRITTEN, 0),
        ("cut and changed in block 9", 30 * BLOCK_BYTES, [9], Change.REWRITTEN, 2 * STRIDE_BYTES - 10),
        ("tail amended and grown", SIZE + 5, [38, 39], Change.REWRITTEN, 9 * STRIDE_BYTES - 10),
        ("a sampled block changed and grown", SIZE + 5, [11, 30], Change.REWRITTEN, 2 * STRIDE_BYTES - 10),
    ],
)
def test_the_seam_falls_at_the_first_difference(
    name: str, size: int, differing: list[int], change: Change, position: int
) -> None:
    assert sampled_blocks(stored()) == (11, 17, 29)
    found = locate(Disk(differing), size)
    assert (found.change, found.position) == (change, position), name


def test_growth_looks_at_a_handful_of_blocks() -> None:
    disk = Disk()
    locate(disk, SIZE + 1)
    assert disk.asked == 5


def test_a_change_deep_in_the_prefix_of_a_grown_file_is_found_by_the_thorough_check() -> None:
    assert locate(Disk([13]), SIZE + 1).change is Change.GROWN
    found = locate(Disk([13]), SIZE + 1, thorough=True)
    assert (found.change, found.position) == (Change.REWRITTEN, 3 * STRIDE_BYTES - 10)


def test_the_window_moves_the_seam_left_only_if_the_tail_differs() -> None:
    window = 2 * HOUR_US + 1
    assert locate(Disk([39]), SIZE + 5, window=window).position == 7 * STRIDE_BYTES - 10
    assert locate(Disk([33]), SIZE, window=window).position == 8 * STRIDE_BYTES - 10
    assert locate(Disk(), SIZE + 5, window=window).position == SIZE - 7


def test_a_format_without_sense_in_its_tail_is_read_from_the_start_on_any_change() -> None:
    assert locate(Disk(), SIZE + 5, whole=True).position == 0
    assert locate(Disk([39]), SIZE, whole=True).position == 0
    assert locate(Disk(), SIZE, whole=True).change is Change.UNCHANGED


@given(st.sets(st.integers(0, BLOCKS - 1)), st.integers(0, SIZE + 3 * BLOCK_BYTES))
def test_no_byte_before_the_seam_of_a_thorough_check_differs(differing: set[int], size: int) -> None:
    found = locate(Disk(differing), size, thorough=True)
    assert found.position <= size
    if differing and min(differing) * BLOCK_BYTES < size:
        assert found.position <= min(differing) * BLOCK_BYTES


@pytest.mark.parametrize(
    ("name", "position", "kept", "first_us", "last_us", "verdict"),
    [
        ("all there and more", 0, 10_000, 0, 11 * HOUR_US, Replacement.REPLACES),
        ("fewer readings", 0, 9_998, 0, 10 * HOUR_US, Replacement.TAKES_READINGS_AWAY),
        ("ends earlier", 0, 10_000, 0, 9 * HOUR_US, Replacement.TAKES_READINGS_AWAY),
        ("starts later", 0, 10_000, 1, 10 * HOUR_US, Replacement.TAKES_READINGS_AWAY),
        ("nothing left", 0, 0, None, None, Replacement.TAKES_READINGS_AWAY),
        ("all of it after the old end", 0, 3, 10 * HOUR_US + 1, 12 * HOUR_US, Replacement.NEW_GENERATION),
        ("begins at the old end", 0, 3, 10 * HOUR_US, 12 * HOUR_US, Replacement.TAKES_READINGS_AWAY),
    ],
)
def test_a_replacement_is_judged_by_what_it_would_take_away(
    name: str, position: int, kept: int, first_us: int | None, last_us: int | None, verdict: Replacement
) -> None:
    seam = Seam(Change.REWRITTEN, replace(ORIGIN, offset=position))
    assert judge_replacement(stored(), seam, kept=kept, first_us=first_us, last_us=last_us) is verdict, name


def test_growth_is_never_judged() -> None:
    seam = Seam(Change.GROWN, stored().end)
    assert judge_replacement(stored(), seam, kept=0, first_us=None, last_us=None) is Replacement.REPLACES
