"""Aligned slices of time: boundaries depend on the length alone, never on what arrived first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from disarray.errors import SegmentRangeError
from disarray.model.duration import DAY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Python shows the years 1 to 9999; a year is left at both ends, so that segment boundaries can be shown too.
FIRST_US = (datetime(2, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
LAST_US = (datetime(9999, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) - 1
LONGEST_SEGMENT_US = 365 * DAY


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """The half-open slice [start_us, end_us) of event time."""

    start_us: int
    end_us: int

    def contains(self, event_us: int) -> bool:
        """Whether a reading at this time belongs here."""
        return self.start_us <= event_us < self.end_us


def segment_start(event_us: int, length_us: int) -> int:
    """Start of the segment in which a reading falls; segments count from 1970-01-01T00:00Z, both ways."""
    _check(event_us, length_us)
    return event_us - event_us % length_us


def is_beyond_horizon(segment_us: int, horizon_start_us: int | None) -> bool:
    """Whether a segment begins too early to be changed without a person; no horizon, no such segment."""
    return horizon_start_us is not None and segment_us < horizon_start_us


def datetime_of(event_us: int) -> datetime:
    """The instant as an aware datetime in UTC, exact to the microsecond."""
    return _EPOCH + timedelta(microseconds=event_us)


def instant_of(event_us: int | None) -> datetime | None:
    """The same where there may be none."""
    return None if event_us is None else datetime_of(event_us)


def microseconds_of(instant: datetime) -> int:
    """The instant as int64 microseconds since 1970; a naive datetime would mean a guessed zone."""
    if instant.tzinfo is None:
        raise SegmentRangeError(
            f"{instant.isoformat()} has no zone, so it is no instant; give one with an offset"
        )
    return (instant - _EPOCH) // timedelta(microseconds=1)


def _check(event_us: int, length_us: int) -> None:
    if not 0 < length_us <= LONGEST_SEGMENT_US:
        raise SegmentRangeError(f"a segment of {length_us} µs is not between 1 µs and 365 days long")
    if not FIRST_US <= event_us <= LAST_US:
        raise SegmentRangeError(
            f"event time {event_us} µs lies outside the years 2 to 9998; reject the reading"
        )
