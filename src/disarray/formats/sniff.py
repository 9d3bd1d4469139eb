"""What the bytes of an unknown text file give away: encoding, delimiter, header line, decimal mark."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from disarray.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

DELIMITERS = ("\t", ";", ",", "|")
NULL_WORDS = frozenset({"N/A", "n/a", "NA", "NULL", "null", "None", "-", "--", "---", "NaN", "nan", "#N/A"})
_FALLBACKS = ("utf-8", "windows-1252", "iso-8859-1")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
_COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?", re.ASCII)
_POINT_NUMBER = re.compile(r"[+-]?\d+\.\d+([eE][+-]?\d+)?", re.ASCII)
# Grouped in threes, with a decimal mark after it or more than once: nothing else that instruments write looks so.
_GROUPED = {
    ".": re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+|[+-]?\d{1,3}(\.\d{3}){2,}", re.ASCII),
    ",": re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d+|[+-]?\d{1,3}(,\d{3}){2,}", re.ASCII),
    "'": re.compile(r"[+-]?\d{1,3}('\d{3})+([.,]\d+)?", re.ASCII),
    " ": re.compile(r"[+-]?\d{1,3}( \d{3})+([.,]\d+)?", re.ASCII),
}
_IN_THREES = {
    mark: re.compile(rf"[+-]?\d{{1,3}}({re.escape(mark)}\d{{3}})+([.,]\d+)?", re.ASCII) for mark in _GROUPED
}
# Digits with the marks of dates and clocks between them, perhaps a month by name: 1.3.24 10:15, 01-Mar-2024 3:05 PM.
_STAMP = re.compile(
    r"\d{1,4}([-./]\d{1,2}[-./]\d{1,4}|[-./ ][A-Za-z]{3}[-./ ]\d{2,4}|\d{4}|:\d{2})([ T]?[\d:.,]*)( ?[AaPp][Mm])?"
    r"(Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_UNIT_CELL = re.compile(r"[\[(].*[\])]|[a-zA-Z°µΩ%/²³]{1,4}|")
_MOST_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Sniffed:
    """A delimited text as it seems to be; `header_line` counts from 1, None where no line names the cells."""

    encodings: tuple[str, ...]
    delimiter: str
    decimal: str
    thousands: str
    header_line: int | None
    units_row: bool
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def decode_head(head: bytes) -> tuple[tuple[str, ...], list[str]]:
    """The encodings that a description should list, and the complete lines of the sample."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or head[:4_000].count(b"\0") > len(head[:4_000]) // 8:
        raise ConfigError(
            "the file is UTF-16 or binary, in which lines cannot be framed; export it again as UTF-8 text"
        )
    body = head.removeprefix(b"\xef\xbb\xbf")
    end = body.rfind(b"\n") + 1
    complete = body[:end] if end else body
    for number, encoding in enumerate(_FALLBACKS, start=1):
        try:
            text = complete.decode(encoding)
        except UnicodeDecodeError:
            continue
        # utf-8 stays first: lines without special signs are the same in all of them.
        encodings = ("utf-8",) if number == 1 else ("utf-8", encoding)
        return encodings, [line.removesuffix("\r") for line in text.split("\n")]
    raise AssertionError("iso-8859-1 decodes every byte")


def sniff(head: bytes) -> Sniffed | None:
    """The likeliest structure of a delimited text, or None where no delimiter makes a table of it."""
    encodings, lines = decode_head(head)
    lines = lines[:_MOST_ROWS]
    best = max((_longest_stretch(lines, delimiter), delimiter) for delimiter in DELIMITERS)
    (score, width), delimiter = best
    if score == 0:
        return None
    numbered = [(at, split_line(line, delimiter)) for at, line in enumerate(lines) if line]
    table = [(at, cells) for at, cells in numbered if len(cells) == width]
    first = _first_data(table)
    units = 2 <= first < len(table) and _are_units(table[first - 1][1]) and not _is_data(table[first - 2][1])
    at = first - 1 - units
    named = at >= 0 and (first == len(table) or table[first][0] - table[at][0] == 1 + units)
    rows = tuple(cells for _, cells in table[first:] if any(cells))
    thousands = _thousands_mark(rows, delimiter)
    if thousands:
        # Without the mark, as the parser reads them: what follows is about numbers, not about marks.
        rows = tuple(tuple(_ungrouped(cell, thousands) for cell in row) for row in rows)
    return Sniffed(
        encodings=encodings,
        delimiter=delimiter,
        decimal=_decimal_mark(rows, delimiter, thousands),
        thousands=thousands,
        header_line=table[at][0] + 1 if named else None,
        units_row=named and units,
        header=table[at][1] if named else tuple(f"column_{number}" for number in range(1, width + 1)),
        rows=rows,
    )


def split_line(line: str, delimiter: str) -> tuple[str, ...]:
    """The cells of a line, quotes and blanks around them taken off."""
    if delimiter != "\t" and '"' in line:
        try:
            return tuple(cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, strict=True)))
        except csv.Error:
            pass
    return tuple(cell.strip() for cell in line.split(delimiter))


def is_number(cell: str) -> bool:
    """Whether the cell is a number with either decimal mark."""
    return _NUMBER.fullmatch(cell) is not None


def _longest_stretch(lines: list[str], delimiter: str) -> tuple[int, int]:
    """A score and the width of the longest stretch of lines with equally many cells, two at least."""
    widths = [len(split_line(line, delimiter)) if line else 0 for line in lines]
    stretches = [(len(list(group)), width) for width, group in groupby(widths) if width >= 2]
    length, width = max(stretches, default=(0, 0))
    return (length * min(width, 8), width) if length >= 2 else (0, 0)


def _first_data(table: list[tuple[int, tuple[str, ...]]]) -> int:
    """Where readings begin: the first of two data rows; a number in a preamble stands alone."""
    stamped = _stamp_column(table)
    data = [
        _is_data(cells) and (stamped is None or not cells[stamped] or cells[stamped][0].isdigit())
        for _, cells in table
    ]
    pairs = (at for at in range(len(data) - 1) if data[at] and data[at + 1])
    return next(pairs, len(data) - 1 if data[-1] else len(data))


def _stamp_column(table: list[tuple[int, tuple[str, ...]]]) -> int | None:
    """The first column that holds stamps nearly everywhere: where it does not, a row is none, whatever its numbers."""
    for column in range(len(table[0][1])):
        cells = [cells[column] for _, cells in table if cells[column]]
        if cells and sum(1 for cell in cells if _STAMP.fullmatch(cell)) >= max(2, 0.8 * (len(cells) - 3)):
            return column
    return None


def _is_data(cells: tuple[str, ...]) -> bool:
    return any(is_number(cell) or _STAMP.fullmatch(cell) or _is_grouped(cell) for cell in cells if cell)


def _is_grouped(cell: str) -> bool:
    return any(pattern.fullmatch(cell) for pattern in _GROUPED.values())


def _thousands_mark(rows: Sequence[tuple[str, ...]], delimiter: str) -> str:
    """The mark that groups digits in threes, where some number leaves no doubt about it."""
    for mark, pattern in _GROUPED.items():
        # With points the decimal mark would be the comma, which cannot be the delimiter too.
        is_possible = mark != delimiter and not (mark == "." and delimiter == ",")
        if is_possible and any(pattern.fullmatch(cell) for row in rows for cell in row):
            return mark
    return ""


def _ungrouped(cell: str, mark: str) -> str:
    return cell.replace(mark, "") if _IN_THREES[mark].fullmatch(cell) else cell


def _are_units(cells: tuple[str, ...]) -> bool:
    return any(cells) and all(_UNIT_CELL.fullmatch(cell) for cell in cells)


def _decimal_mark(rows: Sequence[tuple[str, ...]], delimiter: str, thousands: str) -> str:
    if thousands == ".":
        # Whole numbers alone show no decimal mark; it cannot be the one that groups them.
        return ","
    marks: Counter[str] = Counter()
    for row in rows:
        for cell in row:
            marks[","] += bool(_COMMA_NUMBER.fullmatch(cell))
            marks["."] += bool(_POINT_NUMBER.fullmatch(cell))
    return "," if delimiter != "," and marks[","] > marks["."] else "."
