from __future__ import annotations

from datetime import UTC, datetime, time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disarray.errors import ConfigError
from disarray.kernels.scanning.buckets import buckets_over
from disarray.model.description.rollups import Bucket, BucketKind, Shift
from disarray.model.duration import DAY, HOUR, MINUTE
from disarray.model.segments import datetime_of, microseconds_of
from tests.kernels.bucket_reference import walk

# Days on which a clock changes, and one on which none does.
DAYS = [
    ("Europe/Berlin", datetime(2026, 3, 29, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 25, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, tzinfo=UTC)),
    ("America/Havana", datetime(2025, 11, 2, tzinfo=UTC)),  # goes back from 1:00 to midnight
    ("America/Sao_Paulo", datetime(2018, 11, 4, tzinfo=UTC)),  # midnight does not exist
    ("Pacific/Apia", datetime(2011, 12, 30, tzinfo=UTC)),  # the whole day does not exist
    ("UTC", datetime(2026, 7, 1, tzinfo=UTC)),
]
SHIFTS = (Shift("early", time(6)), Shift("late", time(14)), Shift("night", time(22)))
SMALL_HOURS = (Shift("a", time(2, 10)), Shift("b", time(2, 40)), Shift("c", time(23, 59)))


def bucket(kind: BucketKind, zone: str, **more: object) -> Bucket:
    return Bucket(kind=kind, zone=zone, **more)  # type: ignore[arg-type]


def lengths_in_hours(given_bucket: Bucket, day: datetime) -> list[float]:
    start = microseconds_of(day)
    edges = buckets_over(given_bucket, start, start + DAY).edges.tolist()
    return [(later - earlier) / HOUR for earlier, later in pairwise(edges)]


@pytest.mark.parametrize(("zone", "day"), DAYS)
@pytest.mark.parametrize(
    "more",
    [
        {"kind": BucketKind.CLOCK, "length_us": 15 * MINUTE},
        {"kind": BucketKind.CLOCK, "length_us": HOUR},
        {"kind": BucketKind.CLOCK, "length_us": 2 * HOUR},
        {"kind": BucketKind.CLOCK, "length_us": 12 * HOUR},
        {"kind": BucketKind.DAY},
        {"kind": BucketKind.SHIFTS, "shifts": SHIFTS},
        {"kind": BucketKind.SHIFTS, "shifts": SMALL_HOURS},
    ],
    ids=["15min", "1h", "2h", "12h", "day", "shifts", "small-hours"],
)
def test_edges_are_those_that_a_walk_along_the_local_clock_meets(
    zone: str, day: datetime, more: dict[str, object]
) -> None:
    assert_as_walked(Bucket(zone=zone, **more), microseconds_of(day), 2 * DAY)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [BucketKind.WEEK, BucketKind.MONTH])
@pytest.mark.parametrize(("zone", "day"), [DAYS[1], DAYS[4], DAYS[8]])
def test_weeks_and_months_start_at_local_midnight(kind: BucketKind, zone: str, day: datetime) -> None:
    assert_as_walked(bucket(kind, zone), microseconds_of(day), DAY)


def assert_as_walked(given_bucket: Bucket, start: int, length: int) -> None:
    found = buckets_over(given_bucket, start, start + length)
    walked = walk(given_bucket, start, start + length)
    first = max(at for at, _ in walked if at <= start)
    end = min(at for at, _ in walked if at >= start + length)
    expected = [(at, label) for at, label in walked if first <= at <= end]
    assert found.edges.tolist() == [at for at, _ in expected]
    assert found.labels.to_pylist() == [label for _, label in expected[:-1]]


def test_a_day_of_25_hours_has_25_buckets_of_an_hour() -> None:
    day = bucket(BucketKind.DAY, "Europe/Berlin")
    noon = microseconds_of(datetime(2026, 10, 25, 12, tzinfo=UTC))
    start, end = buckets_over(day, noon, noon + 1).edges.tolist()
    hours = buckets_over(bucket(BucketKind.CLOCK, "Europe/Berlin", length_us=HOUR), start, end).edges
    assert [later - earlier for earlier, later in pairwise(hours.tolist())] == [HOUR] * 25


def test_a_night_shift_over_midnight_lasts_longer_when_the_clock_goes_back() -> None:
    shifts = bucket(BucketKind.SHIFTS, "Europe/Berlin", shifts=SHIFTS)
    assert lengths_in_hours(shifts, datetime(2026, 10, 24, tzinfo=UTC)) == [8, 8, 8, 9]


def test_half_an_hour_is_repeated_on_lord_howe() -> None:
    hours = bucket(BucketKind.CLOCK, "Australia/Lord_Howe", length_us=HOUR)
    lengths = lengths_in_hours(hours, datetime(2026, 4, 4, tzinfo=UTC))
    assert sorted(set(lengths)) == [1, 1.5]


@settings(max_examples=200, deadline=None)
@given(
    start=st.integers(-(10**15), 4 * 10**15),
    length=st.integers(1, 40 * DAY),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia"]),
    kind=st.sampled_from([kind for kind in BucketKind if kind is not BucketKind.SHIFTS]),
)
def test_buckets_cover_every_span_whole_and_do_not_depend_on_it(
    start: int, length: int, zone: str, kind: BucketKind
) -> None:
    given_bucket = bucket(kind, zone, length_us=6 * HOUR if kind is BucketKind.CLOCK else None)
    edges = buckets_over(given_bucket, start, start + length).edges.tolist()
    assert edges[0] <= start < edges[1]
    assert edges[-2] < start + length <= edges[-1]
    assert all(earlier < later for earlier, later in pairwise(edges))
    middle = edges[len(edges) // 2 - 1]
    assert buckets_over(given_bucket, middle, middle + 1).edges.tolist()[0] == middle


def test_segments_at_both_ends_of_time_have_buckets() -> None:
    month = bucket(BucketKind.MONTH, "Europe/Berlin")
    for year in (2, 9998):
        start = microseconds_of(datetime(year, 6, 1, tzinfo=UTC))
        assert datetime_of(int(buckets_over(month, start, start + DAY).edges[0])).year == year


def test_a_zone_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="'Europe/Brlin' is not a time zone"):
        buckets_over(bucket(BucketKind.DAY, "Europe/Brlin"), 0, DAY)
