from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disarray.kernels.parsing.candidates import Disposition
from disarray.kernels.parsing.readings import count_dispositions
from disarray.kernels.parsing.rejects import RejectReason
from disarray.kernels.reading.outcome import ReadReason, ReadStatus
from disarray.model.description.dataset import OnShrink
from disarray.model.description.format import Format, Header
from disarray.model.description.read_spec import RejectLimits
from disarray.model.fingerprints import BLOCK_BYTES, Fingerprint, Tail
from disarray.model.seam import SAMPLED_BLOCKS, Change, Replacement
from tests.hashes import content_hash_of
from tests.kernels.conftest import NOW_US, Desk, spec_of

if TYPE_CHECKING:
    from pathlib import Path

HEADER = b"time,value\n"
PLAN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def lines(first: int, last: int, *, value: float = 0.0) -> bytes:
    """One reading a minute, numbered from midnight."""
    return b"".join(
        b"2024-01-%02dT%02d:%02d:00,%r\n" % (1 + at // 1440, at // 60 % 24, at % 60, value + at)
        for at in range(first, last)
    )


@given(st.lists(st.sampled_from(Disposition), max_size=20))
def test_every_line_is_counted_once(dispositions: list[Disposition]) -> None:
    counted = count_dispositions(np.array(dispositions, dtype=np.uint8))
    assert counted == {kind: dispositions.count(kind) for kind in Disposition}


def test_a_new_file_is_read_whole(desk: Desk) -> None:
    outcome = desk.write(HEADER + lines(0, 100)).read()
    assert (outcome.status, outcome.change, outcome.counts.kept) == (ReadStatus.READ, Change.NEW, 100)
    assert desk.values() == list(range(100))


def test_the_content_hash_is_the_one_that_the_agent_computes(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 100)).read()
    assert desk.stored is not None
    assert content_hash_of(desk.path) == desk.stored.content_hash


def test_an_unchanged_file_is_not_read_again(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 100)).read()
    outcome = desk.read()
    assert (outcome.status, outcome.fragments) == (ReadStatus.UNCHANGED, ())


def test_a_grown_file_gives_only_what_is_new(desk: Desk) -> None:
    data = HEADER + lines(0, 100)
    desk.write(data).read()
    outcome = desk.write(data + lines(100, 103)).read()
    assert (outcome.change, outcome.counts.kept, outcome.seam_position) == (Change.GROWN, 3, len(data))
    assert desk.values() == list(range(103))


def test_half_a_last_line_waits_and_appears_once_with_its_final_value(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 2) + b"2024-01-01T01:00:00,1")
    assert desk.read().counts.waiting == 1
    assert desk.values() == [0, 1]
    desk.write(HEADER + lines(0, 2) + b"2024-01-01T01:00:00,123\n").read()
    assert desk.values() == [0, 1, 123]


def test_the_last_line_of_a_quiet_file_is_taken_and_replaced_if_it_turns_out_longer(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 2) + b"2024-01-01T01:00:00,1").read()
    taken = desk.read(ReadReason.QUIET)
    assert (taken.status, taken.counts.kept, desk.values()) == (ReadStatus.READ, 1, [0, 1, 1])
    assert desk.read(ReadReason.QUIET).status is ReadStatus.UNCHANGED
    assert desk.read(ReadReason.DEEP).status is ReadStatus.UNCHANGED
    desk.write(HEADER + lines(0, 2) + b"2024-01-01T01:00:00,123\n").read()
    assert desk.values() == [0, 1, 123]


def test_a_taken_last_line_stays_through_a_reingest_of_the_unchanged_file(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 2) + b"2024-01-01T01:00:00,1").read(ReadReason.QUIET)
    outcome = desk.read(ReadReason.REINGEST)
    assert (outcome.change, desk.values()) == (Change.REREAD, [0, 1, 1])


def test_a_line_taken_when_quiet_shares_no_fragment_with_the_lines_before_it(desk: Desk) -> None:
    outcome = desk.write(HEADER + lines(0, 2) + b"2024-01-01T00:30:00,1").read(ReadReason.QUIET)
    assert [fragment.readings for fragment in outcome.fragments] == [2, 1]
    assert len({fragment.segment_us for fragment in outcome.fragments}) == 1


def test_a_file_rewritten_in_place_with_the_same_size_and_time_is_found(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 100)).read()
    before = desk.path.stat()
    desk.write((HEADER + lines(0, 100)).replace(b",50.0\n", b",51.0\n"))
    os.utime(desk.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    outcome = desk.read()
    assert (outcome.status, outcome.change) == (ReadStatus.READ, Change.REWRITTEN)
    assert desk.values()[50] == 51


def test_a_rotated_file_with_later_readings_is_a_new_generation_and_the_old_ones_stay(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 100)).read()
    outcome = desk.write(HEADER + lines(100, 120)).read()
    assert (outcome.status, outcome.replacement) == (ReadStatus.READ, Replacement.NEW_GENERATION)
    assert outcome.fingerprint is not None
    assert outcome.fingerprint.generation == 1
    assert desk.values() == list(range(120))


def test_a_replacement_that_takes_readings_away_is_parked_with_its_fragments(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 100)).read()
    outcome = desk.write(HEADER + lines(0, 90)).read()
    assert (outcome.status, outcome.replacement) == (ReadStatus.PARKED, Replacement.TAKES_READINGS_AWAY)
    assert outcome.counts.kept == 90
    assert "100" in (outcome.message or "")


def test_a_shrinking_file_may_replace_where_the_dataset_says_so(desk: Desk) -> None:
    desk.options["on_shrink"] = OnShrink.REPLACE
    desk.write(HEADER + lines(0, 100)).read()
    assert desk.write(HEADER + lines(0, 90)).read().change is Change.TRUNCATED
    assert desk.values() == list(range(90))


def test_a_vanished_file_takes_nothing_away(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 10)).read()
    desk.path.unlink()
    assert desk.read().status is ReadStatus.VANISHED
    assert len(desk.values()) == 10


def test_another_parse_version_reads_the_file_again(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 10)).read()
    desk.spec = replace(desk.spec, parse_version="2")
    outcome = desk.read()
    assert (outcome.change, outcome.counts.kept, outcome.seam_position) == (Change.REREAD, 10, 0)


def test_a_format_without_sense_in_its_tail_is_read_whole_on_growth(desk: Desk) -> None:
    desk.options["whole"] = True
    desk.write(HEADER + lines(0, 10)).read()
    outcome = desk.write(HEADER + lines(0, 12)).read()
    assert (outcome.change, outcome.counts.kept) == (Change.GROWN, 12)
    assert desk.values() == list(range(12))


def test_readings_in_the_future_are_rejected_by_the_given_clock(desk: Desk) -> None:
    desk.spec = replace(desk.spec, future_tolerance_us=60_000_000)
    outcome = desk.write(HEADER + b"2027-01-15T08:00:30,1\n2027-01-15T08:01:01,2\n").read(now_us=NOW_US)
    assert outcome.rejects_by_reason == {RejectReason.IN_FUTURE: 1}
    assert (outcome.rejects[0].line, desk.values()) == (3, [1])


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (RejectLimits(), ReadStatus.READ),
        (RejectLimits(max_count=2), ReadStatus.READ),
        (RejectLimits(max_count=1), ReadStatus.FAILED),
        (RejectLimits(max_share=0.5), ReadStatus.READ),
        (RejectLimits(max_share=0.4), ReadStatus.FAILED),
    ],
)
def test_a_file_with_too_many_rejects_fails_as_a_whole(
    desk: Desk, limits: RejectLimits, status: ReadStatus
) -> None:
    desk.spec = replace(desk.spec, reject_limits=limits)
    assert desk.write(HEADER + lines(0, 2) + b"bad\nworse\n").read().status is status


def test_rejects_are_counted_exactly_and_listed_up_to_a_cap(desk: Desk) -> None:
    outcome = desk.write(HEADER + b"junk\n" * 5000).read()
    assert (outcome.counts.rejected, len(outcome.rejects)) == (5000, 1000)


def test_a_file_that_shrinks_while_it_is_read_fails_and_can_be_retried(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write(HEADER + lines(0, 1000))
    really_read = os.pread

    def shrink_then_read(descriptor: int, length: int, offset: int) -> bytes:
        os.truncate(desk.path, 500)
        return really_read(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", shrink_then_read)
    outcome = desk.read()
    assert (outcome.status, outcome.is_retryable) == (ReadStatus.FAILED, True)


def test_bytes_appended_while_the_file_is_read_are_left_for_the_next_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write(HEADER + lines(0, 10))
    really_read = os.pread

    def append_then_read(descriptor: int, length: int, offset: int) -> bytes:
        with desk.path.open("ab") as stream:
            stream.write(b"2024-02-01T00:00:00,99\n")
        return really_read(descriptor, length, offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", append_then_read)
        desk.read()
    assert desk.values() == list(range(10))
    desk.read()
    assert desk.values()[:11] == [*range(10), 99]


def test_a_read_error_of_the_disk_fails_the_file_and_can_be_retried(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    desk.write(HEADER + lines(0, 10))
    monkeypatch.setattr(os, "pread", fail)
    outcome = desk.read()
    assert (outcome.status, outcome.is_retryable) == (ReadStatus.FAILED, True)
    assert (outcome.message or "").startswith("the file cannot be read: Input/output error; ")


pieces = st.lists(
    st.one_of(
        st.integers(0, 200).map(lambda at: lines(at, at + 3)),
        st.sampled_from(
            [
                b"",
                b"\n",
                b"junk\n",
                b"value,time\n",
                b"1,2024-01-01\n",
                HEADER,
                b"x" * 300 + b"\n",
                b"half a li",
                b"ne\n",
            ]
        ),
    ),
    max_size=12,
)


@PLAN
@given(pieces=pieces, cuts=st.lists(st.integers(0, 2000), max_size=5), quiet=st.booleans())
def test_any_split_into_growth_steps_gives_the_readings_and_the_fingerprint_of_one_read(
    pieces: list[bytes],
    cuts: list[int],
    quiet: bool,
    tmp_path_factory: pytest.TempPathFactory,
    small_blocks: None,
) -> None:
    spec = spec_of(fmt=Format(name="csv", header=Header(repeats=True), max_line_bytes=256))
    data = HEADER + b"".join(pieces)
    once = Desk(tmp_path_factory.mktemp("once"), spec)
    whole = once.write(data).read(ReadReason.QUIET)
    grown = Desk(tmp_path_factory.mktemp("grown"), spec)
    for cut in sorted(min(cut, len(data)) for cut in cuts):
        grown.write(data[:cut]).read(ReadReason.QUIET if quiet else ReadReason.NOTIFICATION)
    grown.write(data).read(ReadReason.QUIET)
    assert grown.readings is not None
    assert once.readings is not None
    assert grown.readings.combine_chunks().equals(once.readings.combine_chunks())
    assert grown.stored == once.stored == whole.fingerprint


@PLAN
@given(
    changes=st.lists(st.tuples(st.integers(0, 3000), st.sampled_from(b"0195,\nx")), max_size=4),
    keep=st.integers(0, 3000),
)
def test_any_rewrite_of_a_file_ends_with_the_readings_of_one_read(
    changes: list[tuple[int, int]], keep: int, tmp_path_factory: pytest.TempPathFactory, small_blocks: None
) -> None:
    data = HEADER + lines(0, 100)
    changed = bytearray(data)
    for at, byte in changes:
        changed[len(HEADER) + at % (len(data) - len(HEADER))] = byte
    rewritten = bytes(changed)[: max(keep, len(HEADER))]
    options = {"on_shrink": OnShrink.REPLACE}
    once = Desk(tmp_path_factory.mktemp("once"), spec_of(), options=options)
    once.write(rewritten).read(ReadReason.QUIET)
    twice = Desk(tmp_path_factory.mktemp("twice"), spec_of(), options=options)
    twice.write(data).read()
    twice.write(rewritten).read(ReadReason.QUIET)
    assert twice.readings is not None
    assert once.readings is not None
    assert twice.readings.combine_chunks().equals(once.readings.combine_chunks())
    assert twice.stored == once.stored


def test_a_fingerprint_from_storage_goes_on_where_the_kept_one_would(desk: Desk, small_blocks: None) -> None:
    data = HEADER + lines(0, 300)
    desk.write(data[:5000]).read()
    assert desk.stored is not None
    desk.stored = Fingerprint.from_bytes(desk.stored.to_bytes())
    desk.write(data).read()
    assert desk.values() == list(range(300))


def test_repeated_autumn_hours_survive_growth(tmp_path: Path) -> None:
    stamps = ["02:10", "02:50", "02:20", "02:40"]
    data = HEADER + b"".join(b"2023-10-29 %s,%d\n" % (stamp.encode(), at) for at, stamp in enumerate(stamps))
    desk = Desk(tmp_path, spec_of(zone="Europe/Berlin"))
    for cut in (40, 60, len(data)):
        desk.write(data[:cut]).read()
    assert [us // 60_000_000 % 60 for us in desk.times()] == [10, 50, 20, 40]
    assert [us // 3_600_000_000 % 24 for us in desk.times()] == [0, 0, 1, 1]


@pytest.mark.slow
def test_appending_a_megabyte_to_200_reads_and_hashes_little_more_than_that(tmp_path: Path) -> None:
    desk = Desk(tmp_path, spec_of())
    block = lines(0, 1440) * 20
    with desk.path.open("wb") as stream:
        stream.write(HEADER)
        while stream.tell() < 200 << 20:
            stream.write(block)
    first = desk.read()
    assert first.cost.bytes_hashed == desk.path.stat().st_size
    appended = block[: 1 << 20]
    with desk.path.open("ab") as stream:
        stream.write(appended)
    grown = desk.read()
    # The first, the last and the sampled blocks are compared; the last one is hashed again, grown; and the
    # head.
    few_blocks = (2 + SAMPLED_BLOCKS + 1) * BLOCK_BYTES + 4096
    assert grown.change is Change.GROWN
    assert grown.cost.bytes_hashed <= len(appended) + few_blocks
    assert grown.cost.bytes_read <= len(appended) + few_blocks
    changed = random.Random(1).randrange(50 << 20, 150 << 20)
    with desk.path.open("r+b") as stream:
        stream.seek(desk.path.read_bytes().index(b",", changed) + 1)
        stream.write(b"7")
    quiet = desk.read(ReadReason.QUIET)
    assert quiet.change is Change.REWRITTEN
    assert 0 < quiet.seam_position <= changed


def test_a_line_that_waits_is_not_in_the_end_of_the_fingerprint(desk: Desk) -> None:
    desk.write(HEADER + lines(0, 2) + b"2024").read()
    assert desk.stored is not None
    assert (desk.stored.tail, desk.stored.end.offset) == (Tail.WAITING, len(HEADER + lines(0, 2)))
