from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.errors import SegmentRangeError
from disarray.model.duration import DAY, HOUR
from disarray.model.segments import (
    FIRST_US,
    LAST_US,
    Segment,
    datetime_of,
    microseconds_of,
    segment_start,
)

instants = st.integers(min_value=FIRST_US, max_value=LAST_US)
lengths = st.integers(min_value=1, max_value=365 * DAY)


def test_a_reading_before_1970_falls_in_the_segment_that_starts_before_it() -> None:
    assert segment_start(-1, HOUR) == -HOUR


def test_the_end_of_a_segment_belongs_to_the_next_one() -> None:
    assert segment_start(HOUR, HOUR) == HOUR


@given(instants, lengths)
def test_every_reading_lies_in_its_aligned_segment(event_us: int, length_us: int) -> None:
    start_us = segment_start(event_us, length_us)
    segment = Segment(start_us, start_us + length_us)
    assert segment.contains(event_us)
    assert segment.start_us % length_us == 0
    assert microseconds_of(datetime_of(segment.start_us)) == segment.start_us
    assert microseconds_of(datetime_of(segment.end_us)) == segment.end_us


@given(instants)
def test_instants_survive_the_way_through_datetime(event_us: int) -> None:
    assert microseconds_of(datetime_of(event_us)) == event_us


def test_an_offset_is_taken_into_account() -> None:
    paris = timezone(timedelta(hours=2))
    assert microseconds_of(datetime(2024, 7, 1, 12, tzinfo=paris)) == microseconds_of(
        datetime(2024, 7, 1, 10, tzinfo=UTC)
    )


def test_a_datetime_without_zone_is_refused() -> None:
    with pytest.raises(SegmentRangeError, match="no zone"):
        microseconds_of(datetime(2024, 7, 1, 12))  # noqa: DTZ001


@pytest.mark.parametrize("event_us", [FIRST_US - 1, LAST_US + 1, 2**63 - 1])
def test_a_time_outside_the_calendar_is_refused(event_us: int) -> None:
    with pytest.raises(SegmentRangeError, match="years 2 to 9998"):
        segment_start(event_us, HOUR)


@pytest.mark.parametrize("length_us", [0, -1, 366 * DAY])
def test_a_segment_has_a_sensible_length(length_us: int) -> None:
    with pytest.raises(SegmentRangeError, match="not between"):
        segment_start(0, length_us)
