from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from disarray.kernels.parsing.framing import Frame, Framer, OverlongLine

CAP = 20


def frame(pieces: list[bytes], cap: int = CAP) -> tuple[list[tuple[int, int, bytes]], Framer]:
    """All items as (line number, offset, bytes), overlong ones by their sample."""
    framer = Framer(0, 1, cap)
    lines: list[tuple[int, int, bytes]] = []
    for piece in pieces:
        for item in framer.feed(piece):
            lines += spell(item)
    return lines, framer


def spell(item: Frame | OverlongLine) -> list[tuple[int, int, bytes]]:
    if isinstance(item, OverlongLine):
        return [(item.number, item.offset, item.sample)]
    return [
        (item.first_line + at, item.offset + int(item.starts[at]), item.line(at)) for at in range(len(item))
    ]


@given(st.binary(max_size=200).map(lambda data: data.replace(b"a", b"\n")), st.lists(st.integers(0, 200)))
def test_any_cut_into_pieces_gives_the_same_lines(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[low:high] for low, high in itertools.pairwise(edges)]
    lines, framer = frame(pieces, cap=len(data) + 1)
    whole = data.split(b"\n")
    assert [line for _, _, line in lines] == whole[:-1]
    assert [number for number, _, _ in lines] == list(range(1, len(whole)))
    assert all(data[offset : offset + len(line)] == line for _, offset, line in lines)
    assert framer.seen == len(whole) - 1
    assert framer.has_tail == bool(whole[-1])
    assert framer.line_start == len(data) - len(whole[-1])


def test_an_unterminated_line_waits_and_can_be_taken() -> None:
    lines, framer = frame([b"one\ntw", b"o"])
    assert lines == [(1, 0, b"one")]
    assert framer.line_start == 4
    assert spell(framer.take_tail()) == [(2, 4, b"two")]
    assert framer.seen == 2


def test_a_line_beyond_the_cap_is_one_item_however_long_and_the_next_line_is_whole() -> None:
    lines, framer = frame([b"ok\n", b"x" * 15, b"x" * 15, *[b"x" * 1000] * 3, b"x\nnext\n"])
    assert [number for number, _, _ in lines] == [1, 2, 3]
    assert lines[1][1] == 3
    assert lines[1][2] == b"x" * 30
    assert lines[2] == (3, 3 + 3031 + 1, b"next")
    assert framer.seen == 3


def test_an_endless_line_is_never_held_in_memory() -> None:
    framer = Framer(0, 1, CAP)
    for _ in range(1000):
        assert list(framer.feed(b"x" * 1000)) == []
    assert framer.has_tail
    assert len(framer._carry) <= CAP
    assert framer.line_start == 0
    tail = framer.take_tail()
    assert isinstance(tail, OverlongLine)
    assert framer.line_start == 1_000_000
