"""Windows of local time as instants: computed once, with the pinned tzdata, so that every engine sees the same.

A clock bucket starts at every instant at which the local clock shows a multiple of its length since midnight. So when
the clock goes back, the repeated hour has its own buckets, and a day of 25 hours has 25 buckets of an hour; a bucket
longer than the change is longer or shorter on that day. Days, weeks, months and shifts start when their local time
first comes. A start that the clock skips happens at the moment of the skip. Buckets never overlap and leave no gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa

from disarray.kernels.parsing.zones import pinned_zone
from disarray.model.description.rollups import BucketKind
from disarray.model.duration import DAY, SECOND
from disarray.model.segments import datetime_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from zoneinfo import ZoneInfo

    from numpy.typing import NDArray

    from disarray.model.description.rollups import Bucket

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
# No zone is further from UTC, and no change of clocks is larger.
_MARGIN_US = 2 * DAY
_zone = lru_cache(maxsize=64)(pinned_zone)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Bucket i is [edges[i], edges[i + 1]) and has the name of its shift, or none."""

    edges: NDArray[np.int64]
    labels: pa.Array[Any]  # by bucket


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A time during which the offset from UTC stays the same; `before_us` is the offset until it began."""

    start_us: int
    end_us: int
    offset_us: int
    before_us: int


@lru_cache(maxsize=256)
def buckets_over(bucket: Bucket, start_us: int, end_us: int) -> Buckets:
    """The buckets that meet [start_us, end_us), whole ones: the first may begin before and the last end after."""
    reach_us = {BucketKind.WEEK: 7 * DAY, BucketKind.MONTH: 31 * DAY}.get(bucket.kind, 0) + _MARGIN_US
    first_us, last_us = start_us - reach_us, end_us + reach_us
    stretches = _stretches(bucket.zone, first_us - _MARGIN_US, last_us + _MARGIN_US)
    if bucket.kind is BucketKind.CLOCK:
        assert bucket.length_us is not None
        edges = _clock_edges(stretches, bucket.length_us)
        labels = [""] * len(edges)
    else:
        starts = list(_local_starts(bucket, first_us, last_us))
        edges = np.array([_first_instant(stretches, local_us) for local_us, _ in starts], dtype=np.int64)
        # Of starts that fall on one instant (both skipped by the clock) the last one holds.
        last = np.append(np.diff(edges) > 0, True)
        labels = [label for (_, label), kept in zip(starts, last, strict=True) if kept]
        edges = edges[last]
    low = int(np.searchsorted(edges, start_us, side="right")) - 1
    high = int(np.searchsorted(edges, end_us, side="left"))
    return Buckets(edges[low : high + 1], pa.array(labels[low:high], pa.string()))


def _clock_edges(stretches: Sequence[_Stretch], length_us: int) -> NDArray[np.int64]:
    parts = []
    for stretch in stretches:
        shows_us = stretch.start_us + stretch.offset_us
        # -(-a // b) is the ceiling: the next multiple that the clock shows.
        first_us = -(-shows_us // length_us) * length_us - stretch.offset_us
        skipped_from_us = stretch.start_us + stretch.before_us
        if -(-skipped_from_us // length_us) * length_us < shows_us and first_us > stretch.start_us:
            parts.append(np.array([stretch.start_us], dtype=np.int64))
        parts.append(np.arange(first_us, stretch.end_us, length_us, dtype=np.int64))
    return np.concatenate(parts)


def _first_instant(stretches: Sequence[_Stretch], local_us: int) -> int:
    for stretch in stretches:
        shows_us = stretch.start_us + stretch.offset_us
        if stretch.start_us + stretch.before_us <= local_us < shows_us:
            return stretch.start_us
        if shows_us <= local_us < stretch.end_us + stretch.offset_us:
            return local_us - stretch.offset_us
    raise AssertionError("a local time lies outside the stretches made for it")


def _local_starts(bucket: Bucket, first_us: int, last_us: int) -> Iterator[tuple[int, str]]:
    """Local times at which a bucket starts, in order."""
    for day in range(first_us // DAY, last_us // DAY + 1):
        midnight_us = day * DAY
        match bucket.kind:
            case BucketKind.DAY:
                yield midnight_us, ""
            case BucketKind.WEEK:
                # 1970-01-01 was a Thursday.
                if (day + 3) % 7 == 0:
                    yield midnight_us, ""
            case BucketKind.MONTH:
                if date.fromordinal(_EPOCH_DAY + day).day == 1:
                    yield midnight_us, ""
            case BucketKind.SHIFTS:
                for shift in bucket.shifts:
                    at = shift.start
                    yield midnight_us + (at.hour * 3600 + at.minute * 60 + at.second) * SECOND, shift.name
            case BucketKind.CLOCK:
                raise AssertionError("clock buckets have no list of starts")
            case _:
                assert_never(bucket.kind)


def _stretches(zone_name: str, first_us: int, last_us: int) -> list[_Stretch]:
    zone = _zone(zone_name)
    start_us, offset_us = first_us, _offset_us(zone, first_us)
    before_us = offset_us
    found = []
    at_us = first_us
    while at_us < last_us:
        next_us = min(at_us + DAY, last_us)
        if _offset_us(zone, next_us) != offset_us:
            change_us = _first_change(zone, at_us, next_us)
            found.append(_Stretch(start_us, change_us, offset_us, before_us))
            start_us, before_us, offset_us = change_us, offset_us, _offset_us(zone, change_us)
            next_us = change_us
        at_us = next_us
    found.append(_Stretch(start_us, last_us, offset_us, before_us))
    return found


def _first_change(zone: ZoneInfo, low_us: int, high_us: int) -> int:
    """The second from which on the offset differs from the one at `low_us`."""
    offset_us = _offset_us(zone, low_us)
    low, high = low_us // SECOND, -(-high_us // SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_us(zone, middle * SECOND) == offset_us:
            low = middle
        else:
            high = middle
    return high * SECOND


def _offset_us(zone: ZoneInfo, at_us: int) -> int:
    offset = datetime_of(at_us).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // _MICROSECOND
