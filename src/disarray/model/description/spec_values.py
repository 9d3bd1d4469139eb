"""What a key's value may be: a reader takes a TOML value and gives a typed one, or says what it expected."""

from __future__ import annotations

import codecs
import math
import re
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from disarray.errors import DurationError
from disarray.model.description.spec_table import MisfitError, near_miss
from disarray.model.duration import LONGEST, format_duration, parse_duration
from disarray.model.expression.tree import KEYWORDS

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=StrEnum)

LONGEST_SUBJECT_BYTES = 256  # what check_subject of the database takes
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_ASCII_PROBE = "\r\n\t ,;|\"'#+-.0123456789ABCXYZabcxyz"


def text(value: object) -> str:
    """Any text that is not empty."""
    if not isinstance(value, str) or not value:
        raise MisfitError("a text")
    return value


def any_text(value: object) -> str:
    """A text, perhaps empty."""
    if not isinstance(value, str):
        raise MisfitError("a text")
    return value


def boolean(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise MisfitError("true or false")
    return value


def name(value: object) -> str:
    """A name that PostgreSQL, Spark and the expression grammar take without quotes."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise MisfitError("a name of a–z, 0–9 and _ that starts with a letter (at most 63)")
    if value in KEYWORDS:
        raise MisfitError(f"a name that is no word of the expression grammar ({', '.join(sorted(KEYWORDS))})")
    return value


def glob(value: object) -> str:
    """A pattern of names as `matches_pattern` of the database takes it, and `fnmatchcase` alike."""
    if not isinstance(value, str) or not value.isprintable() or not 1 <= len(value.encode()) <= 256:
        raise MisfitError("a name, or one with * (any text) and ? (one character) in it, of 1 to 256 bytes")
    if "[" in value:
        # One of the two takes it as it stands, the other as a choice of characters: it would match nothing, silently.
        raise MisfitError(
            "a name, or one with * (any text) and ? (one character) in it",
            hint="[ ] is no choice of characters here: write one pattern for each, or ? for the bracket itself",
        )
    return value


def subject_key(value: object) -> str:
    """A subject's name: printable, not endless, and no longer than the database takes."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= 200
        or not value.isprintable()
        or len(value.encode(errors="replace")) > LONGEST_SUBJECT_BYTES
    ):
        raise MisfitError(
            f"a subject of 1 to 200 printable characters and at most {LONGEST_SUBJECT_BYTES} bytes"
        )
    return value


def integer(*, at_least: int, at_most: int = 2**63 - 1) -> Callable[[object], int]:
    """A whole number within bounds."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= at_most:
            upper = f"to {at_most}" if at_most < 2**63 - 1 else "or more"
            raise MisfitError(f"a whole number, {at_least} {upper}")
        return value

    return read


def number(*, at_least: float = -math.inf, at_most: float = math.inf) -> Callable[[object], float]:
    """A finite number within bounds."""

    def read(value: object) -> float:
        bounded = math.isfinite(at_least) or math.isfinite(at_most)
        bounds = f" from {at_least:g} to {at_most:g}" if bounded else ""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MisfitError(f"a number{bounds}")
        if not math.isfinite(value) or not at_least <= value <= at_most:
            raise MisfitError(f"a finite number{bounds}")
        return float(value)

    return read


def factor(value: object) -> float:
    """A number by which can be multiplied and divided."""
    if value == 0:
        raise MisfitError("a number other than 0")
    return number()(value)


def character(value: object) -> str:
    """One character that can stand between cells."""
    if not isinstance(value, str) or not re.fullmatch(r"[^a-zA-Z0-9\r\n\0]", value, re.ASCII) or value > "~":
        raise MisfitError("one ASCII character that is no letter, digit or line end")
    return value


def choice(enum: type[Choice]) -> Callable[[object], Choice]:
    """One word of a fixed few."""
    return lambda value: enum(one_of(*(member.value for member in enum))(value))


def one_of(*words: str) -> Callable[[object], str]:
    """One text of a fixed few."""

    def read(value: object) -> str:
        if value not in words:
            hint = near_miss(value, words) if isinstance(value, str) else ""
            raise MisfitError("one of " + ", ".join(words), hint=hint if hint.startswith("did") else "")
        return str(value)

    return read


def several(read: Callable[[object], Value], *, at_least: int = 0) -> Callable[[object], tuple[Value, ...]]:
    """A list of values, or one value standing for a list of one; repeats are refused."""

    def read_all(value: object) -> tuple[Value, ...]:
        if not isinstance(value, list):
            return (read(value),)
        if len(value) < at_least:
            raise MisfitError(f"a list of at least {at_least}")
        found: list[Value] = []
        for index, item in enumerate(value):
            try:
                found.append(read(item))
            except MisfitError as misfit:
                raise MisfitError(misfit.expected, found=item, hint=misfit.hint, key=f"[{index}]") from None
            if found[-1] in found[:-1]:
                raise MisfitError("each only once", found=item, key=f"[{index}]")
        return tuple(found)

    return read_all


def duration(*, at_least: int = 0, at_most: int = LONGEST) -> Callable[[object], int]:
    """A duration such as "15 min", in microseconds."""

    def read(value: object) -> int:
        if not isinstance(value, str):
            raise MisfitError("a duration such as '15 min'")
        try:
            microseconds = parse_duration(value)
        except DurationError as error:
            raise MisfitError("a duration such as '15 min'", hint=str(error)) from None
        if not at_least <= microseconds <= at_most:
            raise MisfitError(f"a duration from {format_duration(at_least)} to {format_duration(at_most)}")
        return microseconds

    return read


def or_none(read: Callable[[object], Value]) -> Callable[[object], Value | None]:
    """The word "none", or what the other reader takes."""
    return lambda value: None if value == "none" else read(value)


def regex(*, group: str = "", any_group: bool = False) -> Callable[[object], str]:
    """A regular expression, with the group that its use needs."""

    def read(value: object) -> str:
        pattern = text(value)
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise MisfitError("a regular expression", hint=str(error)) from None
        if group and group not in compiled.groupindex:
            raise MisfitError(f"a regular expression with the group (?P<{group}>…)")
        if any_group and compiled.groups != 1 and "value" not in compiled.groupindex:
            raise MisfitError("a regular expression with one group, or with the group (?P<value>…)")
        return pattern

    return read


def encoding(value: object) -> str:
    """A text encoding in which line ends and delimiters are the bytes they are in ASCII."""
    expected = "an encoding such as utf-8, iso-8859-1 or windows-1252"
    if not isinstance(value, str):
        raise MisfitError(expected)
    try:
        codec = codecs.lookup(value)
        plain = _ASCII_PROBE.encode(codec.name)
    except (LookupError, UnicodeError):
        raise MisfitError(expected) from None
    if plain != _ASCII_PROBE.encode("ascii"):
        raise MisfitError("an encoding that extends ASCII (UTF-16 files are refused: lines cannot be framed)")
    return codec.name


def zone(value: object) -> str:
    """An IANA time zone."""
    expected = "a time zone such as Europe/Berlin or UTC"
    if not isinstance(value, str):
        raise MisfitError(expected)
    try:
        return ZoneInfo(value).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = near_miss(value, available_timezones())
        raise MisfitError(expected, hint=hint if hint.startswith("did") else "") from None
