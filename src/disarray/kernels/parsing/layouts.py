"""Time layouts as regular expressions over digits: one meaning for a single cell and for a whole column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from disarray.errors import ConfigError
from disarray.model.description.format import LayoutKind, TimeLayout

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NUMBER_OF_MONTH = {name[:width]: index + 1 for index, name in enumerate(_MONTHS) for width in (3, len(name))}
_OFFSET = r"(?P<offset>Z|(?P<sign>[+-])(?P<offset_hour>\d{2})(?::?(?P<offset_minute>\d{2}))?)"
_DIRECTIVES = {
    "Y": r"(?P<year>\d{4})",
    "y": r"(?P<short_year>\d{2})",
    "m": r"(?P<month>\d{1,2})",
    "d": r"(?P<day>\d{1,2})",
    "H": r"(?P<hour>\d{1,2})",
    "I": r"(?P<half_hour>\d{1,2})",
    "M": r"(?P<minute>\d{1,2})",
    "S": r"(?P<second>\d{1,2})",
    # Digits beyond the microsecond are cut off, not rounded: order survives, no second overflows into the
    # next.
    "f": r"(?P<fraction>\d{1,9})",
    "p": r"(?P<half>[AaPp][Mm])",
    "b": r"(?P<month_name>" + "|".join(sorted({name[:3] for name in _MONTHS})) + ")",
    "B": r"(?P<month_name>" + "|".join(_MONTHS) + ")",
    "a": r"[A-Za-z]{3}",
    "A": r"[A-Za-z]+",
    "z": _OFFSET,
    "%": "%",
}
_COMPOUNDS = {"%T": "%H:%M:%S", "%R": "%H:%M", "%F": "%Y-%m-%d", "%D": "%m/%d/%y"}
_ISO = (
    r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"(?:[T ](?P<hour>\d{2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    rf"{_OFFSET}?)?"
)
_NUMERIC_GROUPS = (
    *("year", "short_year", "month", "day", "hour", "half_hour", "minute", "second"),
    *("offset_hour", "offset_minute"),
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """A moment as written: local time unless the text carried its own offset."""

    us: int
    is_local: bool


@lru_cache(maxsize=256)
def compile_layout(layout: TimeLayout) -> re.Pattern[str]:
    """The regular expression of a textual layout; blanks in the layout stand for one or more blanks."""
    if layout.kind is LayoutKind.ISO:
        return re.compile(_ISO, re.ASCII)
    pattern = layout.pattern
    for compound, expansion in _COMPOUNDS.items():
        pattern = pattern.replace(compound, expansion)
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "%":
            directive = _DIRECTIVES.get(pattern[at : at + 1])
            if directive is None:
                raise ConfigError(f"time layout {layout.pattern!r}: %{pattern[at : at + 1]} is not supported")
            parts.append(directive)
            at += 1
        elif character == " ":
            parts.append("" if parts and parts[-1] == "[ \t]+" else "[ \t]+")
        else:
            parts.append(re.escape(character))
    try:
        return re.compile("".join(parts), re.ASCII | re.IGNORECASE)
    except re.error as error:
        raise ConfigError(f"time layout {layout.pattern!r}: a directive stands twice") from error


def exact_stamp(text: str, layout: TimeLayout) -> Stamp | None:
    """One cell by a textual layout; None if it does not fit or names a moment that no clock shows."""
    match = compile_layout(layout).fullmatch(text)
    if match is None:
        return None
    constants = text_constants(match)
    numbers = {name: int(match[name]) for name in _NUMERIC_GROUPS if _has(match, name)}
    hour = numbers.get("hour", 0)
    if "half_hour" in numbers:
        if not 1 <= numbers["half_hour"] <= 12:
            return None
        hour = numbers["half_hour"] % 12 + constants.half_day_hours
    minute, second = numbers.get("minute", 0), numbers.get("second", 0)
    offset_hour, offset_minute = numbers.get("offset_hour", 0), numbers.get("offset_minute", 0)
    if hour > 23 or minute > 59 or second > 59 or offset_hour > 23 or offset_minute > 59:
        return None
    try:
        day = date(year_of(numbers), numbers.get("month") or constants.month, numbers.get("day", 1))
    except ValueError:
        return None
    us = (day.toordinal() - _EPOCH_ORDINAL) * DAY_US + (hour * 3600 + minute * 60 + second) * SECOND_US
    us += int(match["fraction"][:6].ljust(6, "0")) if _has(match, "fraction") else 0
    us -= constants.offset_sign * (offset_hour * 60 + offset_minute) * 60 * SECOND_US
    return Stamp(us, constants.is_local)


@dataclass(frozen=True, slots=True)
class TextConstants:
    """What a stamp says other than in digits."""

    month: int
    half_day_hours: int
    offset_sign: int
    is_local: bool


def text_constants(match: re.Match[str]) -> TextConstants:
    """Month name, half of the day and direction of the offset."""
    month = _NUMBER_OF_MONTH[match["month_name"].lower()] if _has(match, "month_name") else 1
    afternoon = _has(match, "half") and match["half"][0] in "Pp"
    sign = -1 if _has(match, "sign") and match["sign"] == "-" else 1
    return TextConstants(month, 12 if afternoon else 0, sign, not _has(match, "offset"))


def year_of(numbers: dict[str, int]) -> int:
    """Two digits mean 1969 to 2068, as POSIX says; a layout without a year means 1900, as strptime says."""
    if "short_year" in numbers:
        return numbers["short_year"] + (1900 if numbers["short_year"] >= 69 else 2000)
    return numbers.get("year", 1900)


def _has(match: re.Match[str], group: str) -> bool:
    return group in match.re.groupindex and match[group] is not None
