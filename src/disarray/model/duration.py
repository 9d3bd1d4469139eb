"""Durations as people write them ("15 min", "1 h 30 min") and as arithmetic wants them: in microseconds."""

from __future__ import annotations

import re
from fractions import Fraction

from disarray.errors import DurationError

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

# A millennium: more is a typing error, and sums of two durations still fit int64.
LONGEST = 365_250 * DAY

_UNITS = {
    MICROSECOND: ("us", "µs", "microsecond", "microseconds"),
    MILLISECOND: ("ms", "millisecond", "milliseconds"),
    SECOND: ("s", "sec", "second", "seconds"),
    MINUTE: ("min", "minute", "minutes"),
    HOUR: ("h", "hour", "hours"),
    DAY: ("d", "day", "days"),
    WEEK: ("w", "week", "weeks"),
}
_MICROSECONDS_OF = {word: size for size, words in _UNITS.items() for word in words}
_PART = re.compile(r"\s*(?P<number>[0-9]{1,18}(?:\.[0-9]{1,6})?)\s*(?P<unit>[a-zµ]+)", re.ASCII)
_CANONICAL = (
    (DAY, "d"),
    (HOUR, "h"),
    (MINUTE, "min"),
    (SECOND, "s"),
    (MILLISECOND, "ms"),
    (MICROSECOND, "us"),
)


def parse_duration(text: str) -> int:
    """Microseconds of a duration such as "15 min"; months and years are no durations and are refused."""
    total = Fraction(0)
    position = 0
    while position < len(text.rstrip()):
        part = _PART.match(text, position)
        if part is None:
            raise DurationError(
                f"{text!r} is not a duration; write a number and a unit, such as '15 min' or '40 d'"
            )
        size = _MICROSECONDS_OF.get(part["unit"])
        if size is None:
            raise DurationError(
                f"{text!r} has the unknown unit {part['unit']!r}; known are us, ms, s, min, h, d, w"
            )
        total += Fraction(part["number"]) * size
        position = part.end()
    if position == 0:
        raise DurationError("an empty text is not a duration; write a number and a unit, such as '15 min'")
    if total.denominator != 1:
        raise DurationError(f"{text!r} is not a whole number of microseconds")
    if total > LONGEST:
        raise DurationError(f"{text!r} is longer than 1,000 years")
    return int(total)


def format_duration(microseconds: int) -> str:
    """The canonical text: `parse_duration` gives the same microseconds back."""
    if microseconds < 0:
        raise DurationError(f"{microseconds} µs is negative; durations are not")
    parts = []
    rest = microseconds
    for size, unit in _CANONICAL:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"
