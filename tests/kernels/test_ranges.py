from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disarray.kernels.reading.outcome import ReadReason
from disarray.kernels.reading.ranges import join_ranges, read_range, split_ranges
from disarray.model.description.format import Format, Header
from disarray.model.seam import Change
from tests.kernels.conftest import Desk, assert_every_line_is_accounted_for, spec_of
from tests.kernels.test_reading import HEADER, lines

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.kernels.reading.outcome import ReadOutcome


def read_in_ranges(
    desk: Desk, range_bytes: int, reason: ReadReason = ReadReason.NOTIFICATION
) -> ReadOutcome | None:
    """Read as several tasks would, each with a writer of its own; None where one read is called for."""
    request = desk.request(reason)
    plan = split_ranges(request, range_bytes=range_bytes)
    if plan is None:
        return None
    stretches = []
    for part in plan.ranges:
        writer = desk.writer()
        stretches.append(read_range(request, part, writer))
        writer.close()
    outcome = join_ranges(request, plan, stretches)
    if outcome is not None:
        assert_every_line_is_accounted_for(outcome)
        desk.apply(outcome)
    return outcome


text = st.lists(
    st.one_of(
        st.integers(0, 500).map(lambda at: lines(at, at + 5)),
        st.sampled_from([b"\n", b"junk\n", HEADER, b"y" * 100 + b"\n", b"z" * 300 + b"\n", b"half"]),
    ),
    min_size=1,
    max_size=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(
    pieces=text,
    range_bytes=st.sampled_from([256, 512, 1024]),
    known=st.integers(0, 4000),
    quiet=st.booleans(),
)
def test_any_split_into_ranges_gives_the_outcome_of_one_read(
    pieces: list[bytes],
    range_bytes: int,
    known: int,
    quiet: bool,
    tmp_path_factory: pytest.TempPathFactory,
    small_blocks: None,
) -> None:
    reason = ReadReason.QUIET if quiet else ReadReason.NOTIFICATION
    spec = spec_of(fmt=Format(name="csv", max_line_bytes=256))
    data = HEADER + b"".join(pieces)
    one, many = (Desk(tmp_path_factory.mktemp("desk"), spec) for _ in range(2))
    for desk in (one, many):
        desk.write(data[:known]).read()
        desk.write(data)
    outcome = read_in_ranges(many, range_bytes, reason)
    if outcome is None:
        return
    whole = one.read(reason)
    assert many.readings is not None
    assert one.readings is not None
    assert many.readings.combine_chunks().equals(one.readings.combine_chunks())
    assert outcome.fingerprint == whole.fingerprint
    assert outcome.rejects == whole.rejects
    assert (outcome.counts, outcome.change) == (whole.counts, whole.change)


def test_an_ordinary_file_is_really_read_in_ranges(desk: Desk, small_blocks: None) -> None:
    desk.write(HEADER + lines(0, 200))
    plan = split_ranges(desk.request(), range_bytes=1024)
    assert plan is not None
    assert len(plan.ranges) > 4
    assert read_in_ranges(desk, 1024) is not None
    assert desk.values() == list(range(200))


def test_only_the_part_after_the_seam_is_shared_out(desk: Desk, small_blocks: None) -> None:
    data = HEADER + lines(0, 200)
    desk.write(data[:4000]).read()
    desk.write(data)
    outcome = read_in_ranges(desk, 512)
    assert outcome is not None
    assert (outcome.change, desk.values()) == (Change.GROWN, list(range(200)))
    assert outcome.cost.bytes_hashed < 4000


@pytest.mark.parametrize(
    ("name", "data", "zone"),
    [
        (
            "another header mid-file",
            HEADER + lines(0, 40) + b"value,time\n1,2024-01-01\n" + lines(0, 40),
            "UTC",
        ),
        (
            "a repeated local hour",
            HEADER + b"2023-10-29 02:30,1\n" * 20 + b"2023-10-29 02:20,1\n" * 20,
            "Europe/Berlin",
        ),
        ("a line longer than a range", HEADER + lines(0, 5) + b"x" * 2000 + b"\n" + lines(5, 40), "UTC"),
        ("no newline at all", HEADER + b"x" * 3000, "UTC"),
    ],
)
def test_a_file_whose_lines_depend_on_earlier_ones_is_read_in_one_piece(
    name: str, data: bytes, zone: str, tmp_path: Path, small_blocks: None
) -> None:
    fmt = Format(name="csv", header=Header(repeats=True), max_line_bytes=512)
    desk = Desk(tmp_path, spec_of(fmt=fmt, zone=zone))
    assert read_in_ranges(desk.write(data), 512) is None, name


def test_what_cannot_be_opened_is_left_to_the_one_read_that_can_say_why(desk: Desk) -> None:
    assert split_ranges(desk.request(), range_bytes=1 << 22) is None
    desk.path.symlink_to("/etc/hostname")
    assert split_ranges(desk.request(), range_bytes=1 << 22) is None


def test_packed_and_whole_reread_files_are_read_in_one_piece(desk: Desk, small_blocks: None) -> None:
    desk.write(HEADER + lines(0, 200))
    assert split_ranges(replace(desk.request(), whole=True), range_bytes=512) is None
