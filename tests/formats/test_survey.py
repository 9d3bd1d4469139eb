from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.formats.survey import FEWEST, LADDER, MOST, suggest_segment, survey
from disarray.model.duration import DAY, HOUR, SECOND


def test_the_stamps_of_a_steady_logger_are_key_enough() -> None:
    seen = survey([second * SECOND for second in range(50)], {"state": [1] * 50})
    assert seen.key == ()
    assert (seen.readings, seen.interval_us, seen.repeated_stamps) == (50, SECOND, 0)


def test_stamps_that_happen_to_differ_are_no_key() -> None:
    seen = survey([second**2 * SECOND for second in range(50)], {"state": [1] * 50})
    assert seen.key is None


def test_a_column_that_counts_readings_is_the_key_even_where_stamps_differ() -> None:
    stamps = [second * SECOND for second in range(50)]
    assert survey(stamps, {"id": [f"q{number}" for number in range(50)]}).key == ("id",)
    assert survey(stamps, {"id": ["same"] * 50}).key == ()


def test_repeated_stamps_need_the_record_number() -> None:
    seen = survey([0, 0, SECOND, SECOND * 2], {"cycle": [1, 1, 1, 1], "rec": [1, 2, 3, 4]})
    assert seen.key == ("rec",)
    assert seen.repeated_stamps == 1


def test_readings_that_nothing_tells_apart_keep_the_key_of_all_columns() -> None:
    assert survey([0, 0], {"rec": [1, 1]}).key is None


def test_many_series_in_one_file_are_told_apart_by_a_channel() -> None:
    stamps = [minute * SECOND for minute in range(30) for _ in range(3)]
    seen = survey(stamps, {"device": [1, 2, 3] * 30, "serial": ["a", "b", "c"] * 30})
    assert seen.channel == "serial"
    assert seen.key == ()


def test_disorder_inside_a_file_is_counted() -> None:
    assert survey([5, 3, 4, 1], {}).out_of_order == 2


def test_nothing_seen_suggests_a_day() -> None:
    seen = survey([], {})
    assert (seen.segment_us, seen.first_us) == (DAY, None)


@pytest.mark.parametrize(
    ("readings", "span_us", "segment_us"),
    [
        (86_400, DAY, DAY),
        (144, DAY, 365 * DAY),
        (1_000_000, DAY, HOUR),
        (1, DAY, DAY),
        (100, 0, DAY),
    ],
)
def test_segments_hold_tens_of_thousands_of_readings(readings: int, span_us: int, segment_us: int) -> None:
    assert suggest_segment(readings, span_us) == segment_us


@given(st.integers(min_value=2, max_value=10**8), st.integers(min_value=1, max_value=1000 * DAY))
def test_a_suggested_segment_is_in_bounds_wherever_the_ladder_allows(readings: int, span_us: int) -> None:
    length = suggest_segment(readings, span_us)
    amount = readings * length / span_us
    assert length in LADDER
    assert FEWEST <= amount <= MOST or not any(FEWEST <= readings * each / span_us <= MOST for each in LADDER)


def test_a_column_that_is_called_like_a_thing_and_names_a_few_is_the_subject_of_each_line() -> None:
    stamps = [second * 1_000_000 for second in range(30) for _ in range(3)]
    tools = [tool for _ in range(30) for tool in ("T1", "T2", "T3")]
    seen = survey(stamps, {"tool": tools, "note": ["x"] * 90})
    assert (seen.subject, seen.subjects, seen.channel, seen.key) == ("tool", ("T1", "T2", "T3"), None, ())


@pytest.mark.parametrize(
    "tools",
    [
        ["T1"] * 90,  # one thing: the file is about it
        [f"T{number}" for number in range(90)],  # a number for each line
        [None, *["T1"] * 44, *["T2"] * 45],  # lines that are about nothing
        [number * 1_000_000_000 for number in (1, 2)] * 45,
    ],
)
def test_a_column_that_names_no_few_things_is_no_subject(tools: list[object]) -> None:
    assert survey([second * 1_000_000 for second in range(90)], {"tool": tools}).subject is None


def test_where_it_is_known_what_a_file_is_about_its_lines_are_not_asked() -> None:
    tools = ["T1", "T2"] * 45
    stamps = [second * 1_000_000 for second in range(90)]
    assert survey(stamps, {"tool": tools}, may_be_split=False).subject is None
