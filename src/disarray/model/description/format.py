"""What an instrument's file looks like, as plain values: enough for a parser to read it without guessing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

# What readings carry beside the declared columns, whose names start with a letter: no clash is possible.
EVENT_US = "_event_us"
CHANNEL = "_channel"
POSITION = "_position"

DEFAULT_MAX_LINE_BYTES = 1 << 20
DEFAULT_TRUE_TOKENS = ("true", "True", "TRUE", "1")
DEFAULT_FALSE_TOKENS = ("false", "False", "FALSE", "0")
DEFAULT_MAX_PREAMBLE_LINES = 1_000


class FileKind(StrEnum):
    """How bytes become rows."""

    DELIMITED = "delimited"
    JSONL = "jsonl"
    PARQUET = "parquet"


class Compression(StrEnum):
    """What wraps the bytes; `auto` looks at the first bytes, never at the file's name."""

    AUTO = "auto"
    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


class ColumnType(StrEnum):
    """The types a reading can have."""

    FLOAT64 = "float64"
    INT64 = "int64"
    STRING = "string"
    BOOL = "bool"
    TIMESTAMP = "timestamp"


class Nonfinite(StrEnum):
    """What becomes of `NaN`, `inf` and `1e999` in a float column."""

    REJECT = "reject"
    NULL = "null"


class Origin(StrEnum):
    """Where a column's value stands in the file."""

    CELL = "cell"
    PREAMBLE = "preamble"


class QuoteEscape(StrEnum):
    """How a quote inside a quoted cell is written: `""` or `\\"`."""

    DOUBLE = "double"
    BACKSLASH = "backslash"


class ShortRows(StrEnum):
    """What becomes of a row with fewer cells than the header."""

    REJECT = "reject"
    NULL = "null"


class LayoutKind(StrEnum):
    """How a stamp is written. 12-hour clocks are `strptime` with `%I` and `%p`."""

    STRPTIME = "strptime"
    ISO = "iso"
    EPOCH = "epoch"
    RELATIVE = "relative"


class TimeUnit(StrEnum):
    """The unit of a numeric stamp."""

    MICROSECONDS = "us"
    MILLISECONDS = "ms"
    SECONDS = "s"
    MINUTES = "min"
    HOURS = "h"

    @property
    def microseconds(self) -> int:
        """How many microseconds one of it is."""
        return {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000}[self.value]


@dataclass(frozen=True, slots=True)
class TimeLayout:
    """One way to read a stamp: `pattern` for strptime, `unit` for epoch and relative."""

    kind: LayoutKind
    pattern: str = ""
    unit: TimeUnit = TimeUnit.SECONDS

    @property
    def is_numeric(self) -> bool:
        """Whether the stamp is a number (with the format's decimal mark) rather than a date."""
        return self.kind in (LayoutKind.EPOCH, LayoutKind.RELATIVE)

    @property
    def needs_zone(self) -> bool:
        """Whether the stamp is local time unless it says otherwise; an offset in the text always wins."""
        return self.kind is LayoutKind.ISO or (self.kind is LayoutKind.STRPTIME and "%z" not in self.pattern)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value is found: under one of these header names (stripped, exact), else where the pattern fits.

    For jsonl a name is a key or a dotted path, for a preamble column the name of the preamble field.
    """

    names: tuple[str, ...] = ()
    pattern: str = ""

    def locate(self, header: tuple[str, ...]) -> int | None:
        """The index of the header cell meant: earlier names win, and of equal headers the first."""
        for name in self.names:
            if name in header:
                return header.index(name)
        if self.pattern:
            compiled = re.compile(self.pattern)
            for index, cell in enumerate(header):
                if compiled.fullmatch(cell):
                    return index
        return None

    def __str__(self) -> str:
        names = [repr(name) for name in self.names]
        return " or ".join([*names, f"/{self.pattern}/"] if self.pattern else names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another header under which the same quantity comes, perhaps in another unit (mA instead of A)."""

    source: Source
    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a reading, and how to get it: `value = cell * scale + offset` (float64 only).

    Parsers call `in_header`, which knows the alternatives, and use the scale and offset of what it returns.
    """

    name: str
    source: Source
    type: ColumnType
    unit: str = ""
    scale: float = 1.0
    offset: float = 0.0
    nullable: bool = True
    required: bool = True  # a header without it fails the file; otherwise the column is all null
    nonfinite: Nonfinite = Nonfinite.REJECT
    layouts: tuple[TimeLayout, ...] = ()  # timestamp columns: tried in order, the first that fits wins
    origin: Origin = Origin.CELL
    alternatives: tuple[Alternative, ...] = ()  # tried in order where `source` is not in the header
    is_dimension: bool = False  # a table of readings names its values by number; of type string alone

    def in_header(self, header: tuple[str, ...]) -> tuple[int, Column] | None:
        """The index of its cell, and the column with the conversion that holds for that header."""
        index = self.source.locate(header)
        if index is not None:
            return index, self
        for other in self.alternatives:
            index = other.source.locate(header)
            if index is not None:
                return index, replace(self, source=other.source, scale=other.scale, offset=other.offset)
        return None

    @property
    def is_converted(self) -> bool:
        """Whether the cell's number is in another unit than the column's."""
        return self.scale != 1.0 or self.offset != 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStamp:
    """The preamble field from which relative stamps count."""

    field: str
    layouts: tuple[TimeLayout, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """When a reading happened: the cells (joined by one space: a date beside a time) and their layouts."""

    sources: tuple[Source, ...]
    layouts: tuple[TimeLayout, ...]
    start: StartStamp | None = None
    zone: str | None = None  # IANA name for local stamps; None only where no layout needs one


@dataclass(frozen=True, slots=True)
class PreambleField:
    """A value in the lines before the header: group `value`, or group 1, of the first line that matches."""

    name: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preamble:
    """The lines before the header: so many, or as long as they match, or all up to `Header.pattern`."""

    lines: int | None = None
    pattern: str = ""
    fields: tuple[PreambleField, ...] = ()
    max_lines: int = DEFAULT_MAX_PREAMBLE_LINES


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Which line names the cells: number `line` (from 1), the first to match, or the one after the preamble.

    `names` is for files without a header line: the cells are named by position.
    """

    line: int | None = None
    pattern: str = ""
    names: tuple[str, ...] = ()
    units_row: bool = False  # the line after the header holds units and is not a reading
    repeats: bool = False  # the header may return mid-file, perhaps reordered, and is then in force


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One instrument's file format, described."""

    name: str
    title: str = ""
    kind: FileKind = FileKind.DELIMITED
    compression: Compression = Compression.AUTO
    encodings: tuple[str, ...] = ("utf-8",)  # the first that decodes a line strictly; all are ASCII supersets
    delimiter: str = ","
    decimal: str = "."
    thousands: str = ""
    quote: str = '"'  # empty: quotes are ordinary text
    quote_escape: QuoteEscape = QuoteEscape.DOUBLE
    comment: str = ""
    strip: bool = True  # blanks around a cell are not part of it
    trailing_delimiter: bool = False
    short_rows: ShortRows = ShortRows.REJECT
    null_tokens: tuple[str, ...] = ()  # the empty cell is always null
    true_tokens: tuple[str, ...] = DEFAULT_TRUE_TOKENS
    false_tokens: tuple[str, ...] = DEFAULT_FALSE_TOKENS
    max_line_bytes: int = DEFAULT_MAX_LINE_BYTES
    preamble: Preamble = Preamble()
    header: Header = Header()
    columns: tuple[Column, ...] = ()
    event_time: EventTime | None = None  # None: the dataset has to say
    reread_whole: bool = False  # the tail makes no sense without what stands before it
