from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.errors import FormatCheckError, SpecError
from disarray.formats.loader import describe_text
from disarray.testing import Expect, check_format
from disarray.testing.variations import growth_steps, variations

if TYPE_CHECKING:
    from pathlib import Path

SCALE = """
title = "Lab scale"
delimiter = ";"
decimal = ","
[preamble.fields]
serial = 'Serial (\\S+)'
[header]
pattern = '^when;'
[event_time]
from = "when"
layouts = "%d.%m.%Y %H:%M:%S"
[columns]
mass = { from = "g", type = "float64", unit = "kg", scale = 0.001 }
note = { from = "note", type = "string" }
"""
SAMPLE = (
    b"Scale\nSerial S-7\nwhen;g;note\n"
    b'01.02.2024 10:00:00;1500,0;"a; b"\n01.02.2024 10:00:10;;x\n01.02.2024 10:00:20;2,5;'
)


def failures(description: str, sample: bytes, expect: Expect | None = None) -> tuple[str, ...]:
    with pytest.raises(FormatCheckError) as caught:
        check_format(describe_text("scale", description), sample, expect=expect)
    return caught.value.failures


def test_a_good_description_passes_and_gives_its_readings_back() -> None:
    checked = check_format(
        describe_text("scale", SCALE),
        SAMPLE,
        expect=Expect(readings=3, first={"mass": 1.5, "note": "a; b"}, preamble={"serial": "S-7"}),
        zone="Europe/Berlin",
    )
    assert checked.readings[2] == {"event_time": "2024-02-01T09:00:20+00:00", "mass": 0.0025, "note": None}
    assert (checked.counts.seen, checked.counts.preamble) == (6, 3)
    assert "columns in another order" in checked.checks
    assert "grown in steps" in checked.checks


def test_a_description_is_also_taken_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "scale.toml").write_text(SCALE)
    assert len(check_format(tmp_path / "scale.toml", SAMPLE).readings) == 3


def test_wrong_expectations_are_all_named() -> None:
    found = failures(
        SCALE, SAMPLE, Expect(readings=4, rejected=1, first={"mass": 15.0}, preamble={"serial": "S-8"})
    )
    assert found == (
        "number of readings: 3 instead of 4",
        "number of rejected rows: 0 instead of 1, the first: None",
        "first mass: 1.5 instead of 15.0",
        "preamble serial: 'S-7' instead of 'S-8'",
    )


def test_a_whole_number_is_not_taken_for_a_float() -> None:
    assert failures(SCALE, SAMPLE, Expect(first={"mass": 1500 // 1000})) == ("first mass: 1.5 instead of 1",)


def test_rejected_rows_fail_the_check_unless_they_are_expected() -> None:
    damaged = SAMPLE.replace(b"1500,0", b"1500.0")
    assert failures(SCALE, damaged)[0].startswith(
        "number of rejected rows: 1 instead of 0, the first: Reject(line=4"
    )
    assert len(check_format(describe_text("scale", SCALE), damaged, expect=Expect(rejected=1)).readings) == 2


def test_a_description_that_finds_no_reading_fails() -> None:
    assert failures(SCALE.replace("'^when;'", "'^never'"), SAMPLE)[0] == "number of readings: 0 instead of 1"


def test_a_description_that_counts_on_the_order_of_columns_fails() -> None:
    by_position = (
        SCALE.replace("pattern = '^when;'", "names = ['when', 'g', 'note']")
        .replace("[header]", "[preamble]\nlines = 3\n[header]")
        .replace("[preamble.fields]\nserial = 'Serial (\\S+)'\n", "")
    )
    checked = check_format(describe_text("scale", by_position), SAMPLE)
    assert "columns in another order" not in checked.checks


def test_a_header_that_is_missing_fails_with_the_reason() -> None:
    assert failures(SCALE.replace('"g"', '"kg"'), SAMPLE)[0].startswith(
        "the sample cannot be read: the header has no column mass ('kg')"
    )


def test_a_faulty_dataset_is_refused_before_anything_is_read() -> None:
    with pytest.raises(SpecError, match="did you mean 'segment'"):
        check_format(describe_text("scale", SCALE), SAMPLE, dataset={"segmnt": "1 d"})


def test_growth_cuts_inside_and_after_every_line() -> None:
    assert growth_steps(b"ab\ncd\n") == [b"a", b"ab\n", b"ab\nc", b"ab\ncd\n"]
    assert growth_steps(b"ab\ncd")[-1] == b"ab\ncd"


def test_variations_keep_quoted_cells_whole() -> None:
    named = dict(variations(SAMPLE, describe_text("scale", SCALE).format))
    assert named["columns in another order"].splitlines()[3] == b'01.02.2024 10:00:00;"a; b";1500,0'
    assert named["an unknown column at the end"].splitlines()[2] == b"when;g;note;Other"
