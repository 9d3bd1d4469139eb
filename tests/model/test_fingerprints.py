from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.errors import FingerprintError
from disarray.model.fingerprints import (
    ORIGIN,
    Checkpoint,
    Fingerprint,
    FoldMark,
    LineCounts,
    ParserState,
    Phase,
    Tail,
)

numbers = st.integers(0, 2**50)
times = st.one_of(st.none(), st.integers(-(2**52), 2**52))
states = st.builds(
    ParserState,
    phase=st.sampled_from(Phase),
    header=st.lists(st.text(max_size=5), max_size=4).map(tuple),
    fields=st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), max_size=2).map(tuple),
    folds=st.lists(st.builds(FoldMark, numbers, numbers, st.booleans()), max_size=2).map(tuple),
)
counts = st.builds(LineCounts, numbers, numbers, numbers, numbers, numbers, numbers)
checkpoints = st.builds(
    Checkpoint, offset=numbers, line=numbers, counts=counts, first_us=times, last_us=times, state=states
)
fingerprints = st.builds(
    Fingerprint,
    size=numbers,
    hashes=st.lists(st.binary(min_size=16, max_size=16), max_size=5).map(tuple),
    content_hash=st.text("0123456789abcdef", min_size=64, max_size=64),
    checkpoints=st.lists(checkpoints, max_size=5).map(tuple),
    end=checkpoints,
    counts=counts,
    first_us=times,
    last_us=times,
    parse_version=st.text(max_size=5),
    tail=st.sampled_from(Tail),
    compression=st.sampled_from(["none", "gzip"]),
    generation=st.integers(0, 9),
)


@given(fingerprints)
def test_a_fingerprint_survives_storage(fingerprint: Fingerprint) -> None:
    assert Fingerprint.from_bytes(fingerprint.to_bytes()) == fingerprint


def test_the_stored_form_stays_small_for_a_big_file() -> None:
    header = tuple(f"column {at}" for at in range(40))
    state = ParserState(phase=Phase.BODY, header=header)
    points = tuple(
        Checkpoint(offset=at << 22, line=at * 90_000 + at % 7, counts=LineCounts(at * 90_000, at * 90_000), state=state)
        for at in range(1, 512)
    )
    fingerprint = Fingerprint(
        size=2 << 30,
        hashes=tuple(zlib.crc32(bytes([at % 256, at // 256])).to_bytes(16, "big") for at in range(2048)),
        content_hash="0" * 64,
        checkpoints=points,
        end=points[-1],
        counts=points[-1].counts,
        first_us=None,
        last_us=None,
        parse_version="1",
    )
    assert len(fingerprint.to_bytes()) < 50_000


@pytest.mark.parametrize("packed", [b"", b"junk", zlib.compress(b"{}"), zlib.compress(b'{"layout": 99}')])
def test_a_fingerprint_that_cannot_be_read_is_an_error_and_never_a_guess(packed: bytes) -> None:
    with pytest.raises(FingerprintError):
        Fingerprint.from_bytes(packed)


def test_the_origin_is_a_checkpoint_before_the_first_line() -> None:
    assert (ORIGIN.offset, ORIGIN.line, ORIGIN.counts.seen) == (0, 1, 0)


@pytest.mark.parametrize(
    ("line_counts", "balanced"),
    [
        (LineCounts(seen=6, kept=1, rejected=2, blank=1, preamble=1, waiting=1), True),
        (LineCounts(seen=2, kept=1), False),
        (LineCounts(seen=1, kept=1, rejected=1), False),
    ],
)
def test_counts_balance_only_if_every_line_went_to_one_place(line_counts: LineCounts, balanced: bool) -> None:
    assert line_counts.is_balanced is balanced
