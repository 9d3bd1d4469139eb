"""What columns of text seem to hold: their type, their layout in time, a good name and a unit."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import TYPE_CHECKING

from disarray.formats.sniff import NULL_WORDS, is_number
from disarray.model.description.format import ColumnType, LayoutKind
from disarray.model.expression.tree import KEYWORDS, Function

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from disarray.model.description.format import TimeLayout

_DATES = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%d.%m.%y",
    "%Y%m%d",
    "%d-%b-%Y",
)
_CLOCKS = ("%H:%M:%S", "%H:%M:%S.%f", "%H:%M", "%I:%M:%S %p", "%I:%M %p", "%I:%M:%S.%f %p", "%H:%M:%S,%f")
# Written without a mark between the parts; a counter of fourteen digits has seldom a month and an hour in it.
_COMPACT = (
    "%Y%m%d%H%M%S",
    "%Y%m%d%H%M%S.%f",
    "%Y%m%dT%H%M%S",
    "%Y%m%d %H%M%S",
    "%Y%m%d-%H%M%S",
    "%Y%m%d_%H%M%S",
)
_COMPACT_SHAPE = re.compile(r"(19|20)\d{6}[T _-]?\d{6}(\.\d{1,6})?", re.ASCII)
_COMPACT_MINUTES = re.compile(r"(19|20)\d{10}", re.ASCII)
_EPOCHS = {"epoch s": (1e8, 1e10), "epoch ms": (1e11, 1e13), "epoch us": (1e14, 1e16)}
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d([.,]\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_ISO_WITH_OFFSET = re.compile(r".*(Z|[+-]\d\d:?\d\d)", re.ASCII)
_TIME_WORDS = re.compile(
    r"time|(?<!up)date|\bts\b|stamp|zeit|datum|orario|heure|fecha|hora|epoch|when|clock", re.IGNORECASE
)
_UNIT = re.compile(r"\s*[\[(]([^\[\]()]{1,15})[\])]\s*$")
_SLASH_UNIT = re.compile(r"(?<=\w)/([A-Za-zµΩ°%][\w.²³]{0,7})$")
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})", re.ASCII)
_ENOUGH = 20
_TRUTH = frozenset({"true", "false", "True", "False", "TRUE", "FALSE"})


def filled(cells: Sequence[str]) -> list[str]:
    """The cells that hold something."""
    return [cell for cell in cells if cell and cell not in NULL_WORDS]


def column_type(cells: Sequence[str]) -> ColumnType:
    """The narrowest type that takes the cells; numbers with leading zeros are names and stay text.

    A few odd cells among numbers do not make a text of them: they are better seen as rejects.
    """
    values = filled(cells)
    if not values:
        return ColumnType.STRING
    if all(value in _TRUTH for value in values):
        return ColumnType.BOOL
    numbers = [value for value in values if is_number(value)]
    if not is_most(len(numbers), len(values)) or any(re.match(r"[+-]?0\d", value) for value in numbers):
        return ColumnType.STRING
    return ColumnType.INT64 if all(_WHOLE.fullmatch(value) for value in numbers) else ColumnType.FLOAT64


def time_layouts(cells: Sequence[str]) -> tuple[str, ...]:
    """Every layout of a whole stamp that takes the cells; with more than one, days and months look alike."""
    values = filled(cells)
    if not values:
        return ()
    if is_most(sum(1 for value in values if _ISO.fullmatch(value)), len(values)):
        return ("iso",)
    if is_most(sum(1 for value in values if _COMPACT_SHAPE.fullmatch(value)), len(values)):
        return _fitting(_COMPACT, values)
    if is_most(sum(1 for value in values if _COMPACT_MINUTES.fullmatch(value)), len(values)):
        return _fitting(["%Y%m%d%H%M"], values)
    return _fitting([f"{date} {clock}" for date in _DATES for clock in _CLOCKS], values)


def date_layouts(cells: Sequence[str]) -> tuple[str, ...]:
    """Every layout of a date alone that takes the cells."""
    values = filled(cells)
    return _fitting(_DATES, values) if values else ()


def clock_layouts(cells: Sequence[str]) -> tuple[str, ...]:
    """Every layout of a time of day alone that takes the cells."""
    values = filled(cells)
    return _fitting(_CLOCKS, values) if values else ()


def epoch_layout(header: str, cells: Sequence[str]) -> str | None:
    """The epoch unit, for numbers of the right size under a header that speaks of time."""
    values = filled(cells)
    if not values or not _TIME_WORDS.search(header) or not all(is_number(value) for value in values):
        return None
    numbers = [float(value.replace(",", ".")) for value in values]
    for layout, (low, high) in _EPOCHS.items():
        if all(low <= number < high for number in numbers):
            return layout
    return None


def names_time(header: str) -> bool:
    """Whether a header speaks of time."""
    return _TIME_WORDS.search(header) is not None


def stamp_fits(text: str, layout: TimeLayout) -> bool:
    """Whether a text can be a stamp of this layout."""
    if layout.is_numeric:
        return is_number(text)
    if layout.kind is LayoutKind.ISO:
        return _ISO.fullmatch(text.replace(" ", "T", 1)) is not None
    return _count_misfits(layout.pattern, [text]) == 0


def has_offset(cells: Sequence[str]) -> bool:
    """Whether every ISO stamp says its own offset, so that no zone has to be assumed."""
    return all(_ISO_WITH_OFFSET.fullmatch(value) for value in filled(cells))


def name_and_unit(header: str, taken: Collection[str]) -> tuple[str, str]:
    """A name for the column that no other has, and the unit that the header carries."""
    unit = ""
    for pattern in (_UNIT, _SLASH_UNIT):
        found = pattern.search(header)
        if found and not unit:
            unit = found[1]
            header = header[: found.start()]
    plain = unicodedata.normalize("NFKD", header).encode("ascii", "ignore").decode("ascii")
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", plain).lower()
    word = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:50] or "column"
    if not word[0].isalpha():
        word = f"c_{word}"
    if word in KEYWORDS or word in set(Function):
        word = f"{word}_value"
    name, number = word, 2
    while name in taken:
        name, number = f"{word}_{number}", number + 1
    return name, unit


def is_most(part: int, whole: int) -> bool:
    """Whether so many are all of them, or nearly all of enough."""
    return part == whole or (whole >= _ENOUGH and part >= 0.95 * whole)


def _fitting(layouts: Sequence[str], values: Sequence[str]) -> tuple[str, ...]:
    """The layouts that fit every value, else those that fit nearly all.

    In this order: a layout that fits all but the few days past the twelfth has day and month the wrong way round.
    """
    misfits = {layout: _count_misfits(layout, values) for layout in layouts}
    exact = tuple(layout for layout in layouts if misfits[layout] == 0)
    return exact or tuple(layout for layout in layouts if is_most(len(values) - misfits[layout], len(values)))


def _count_misfits(layout: str, values: Sequence[str]) -> int:
    """How many values the layout does not take; it gives up where they are clearly too many."""
    misfits = 0
    for value in values:
        try:
            datetime.strptime(value, layout)  # noqa: DTZ007  only the shape is of interest
        except ValueError:
            misfits += 1
            if misfits > max(1, 0.06 * len(values)):
                return len(values)
    return misfits
