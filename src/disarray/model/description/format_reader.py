"""From a TOML table to a `Format`: strict, and complete about what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.model.description.format import (
    DEFAULT_FALSE_TOKENS,
    DEFAULT_MAX_LINE_BYTES,
    DEFAULT_MAX_PREAMBLE_LINES,
    DEFAULT_TRUE_TOKENS,
    Compression,
    FileKind,
    Format,
    Header,
    Preamble,
    PreambleField,
    QuoteEscape,
    ShortRows,
)
from disarray.model.description.format_columns import read_columns
from disarray.model.description.format_times import read_event_time
from disarray.model.description.spec_values import (
    any_text,
    boolean,
    character,
    choice,
    encoding,
    integer,
    name,
    one_of,
    regex,
    several,
    text,
)

if TYPE_CHECKING:
    from disarray.model.description.spec_table import Table

MAX_LINE_BYTES_LIMIT = 64 << 20
_DELIMITED_ONLY = (
    "delimiter",
    "decimal",
    "thousands",
    "quote",
    "quote_escape",
    "comment",
    "strip",
    "trailing_delimiter",
    "short_rows",
    "null_tokens",
    "true_tokens",
    "false_tokens",
    "preamble",
    "header",
)
_TEXT_ONLY = ("encodings", "max_line_bytes", "compression")


def read_format(own_name: str, table: Table) -> Format:
    """A format as described; faults are collected in the table's problems."""
    kind = table.optional("kind", choice(FileKind), FileKind.DELIMITED)
    preamble = _read_preamble(table.table("preamble", "preamble"))
    description = Format(
        name=own_name,
        title=table.optional("title", text, ""),
        kind=kind,
        compression=table.optional("compression", choice(Compression), Compression.AUTO),
        encodings=table.optional("encodings", several(encoding, at_least=1), ("utf-8",)),
        delimiter=table.optional("delimiter", character, ","),
        decimal=table.optional("decimal", one_of(".", ","), "."),
        thousands=table.optional("thousands", one_of("", ",", ".", " ", "'", "_"), ""),
        quote=table.optional("quote", one_of("", '"', "'"), '"'),
        quote_escape=table.optional("quote_escape", choice(QuoteEscape), QuoteEscape.DOUBLE),
        comment=table.optional("comment", any_text, ""),
        strip=table.optional("strip", boolean, True),
        trailing_delimiter=table.optional("trailing_delimiter", boolean, False),
        short_rows=table.optional("short_rows", choice(ShortRows), ShortRows.REJECT),
        null_tokens=table.optional("null_tokens", several(text), ()),
        true_tokens=table.optional("true_tokens", several(text, at_least=1), DEFAULT_TRUE_TOKENS),
        false_tokens=table.optional("false_tokens", several(text, at_least=1), DEFAULT_FALSE_TOKENS),
        max_line_bytes=table.optional(
            "max_line_bytes", integer(at_least=256, at_most=MAX_LINE_BYTES_LIMIT), DEFAULT_MAX_LINE_BYTES
        ),
        preamble=preamble,
        header=_read_header(table.table("header", "header"), preamble),
        columns=read_columns(table, fields=preamble.fields),
        event_time=read_event_time(table.table("event_time", "event_time"), fields=preamble.fields),
        reread_whole=table.optional("reread", one_of("tail", "whole"), "tail") == "whole",
    )
    _check_marks(table, description)
    _check_kind(table, kind)
    table.close()
    return description


def _read_preamble(table: Table) -> Preamble:
    preamble = Preamble(
        lines=table.optional("lines", integer(at_least=0, at_most=100_000), None),
        pattern=table.optional("pattern", regex(), ""),
        max_lines=table.optional(
            "max_lines", integer(at_least=1, at_most=100_000), DEFAULT_MAX_PREAMBLE_LINES
        ),
        fields=tuple(
            _read_field(own_name, field)
            for own_name, field in table.tables("fields", "preamble_field", name=name, shorthand="pattern")
        ),
    )
    if preamble.lines is not None and preamble.pattern:
        table.refuse("pattern", "expected either 'lines' or 'pattern', found both")
    table.close()
    return preamble


def _read_field(own_name: str, table: Table) -> PreambleField:
    field = PreambleField(name=own_name, pattern=table.required("pattern", regex(any_group=True), "()"))
    table.close()
    return field


def _read_header(table: Table, preamble: Preamble) -> Header:
    header = Header(
        line=table.optional("line", integer(at_least=1, at_most=100_000), None),
        pattern=table.optional("pattern", regex(), ""),
        names=table.optional("names", several(text, at_least=1), ()),
        units_row=table.optional("units_row", boolean, False),
        repeats=table.optional("repeats", boolean, False),
    )
    if sum((header.line is not None, bool(header.pattern), bool(header.names))) > 1:
        table.refuse("pattern", "expected one of 'line', 'pattern' and 'names', found more")
    if header.line is not None and preamble.lines is not None and header.line <= preamble.lines:
        table.refuse(
            "line", f"expected a line after the {preamble.lines} of the preamble, found {header.line}"
        )
    if header.names and (header.units_row or header.repeats):
        table.refuse("names", "has no meaning beside 'units_row' or 'repeats': the file has no header line")
    table.close()
    return header


def _check_marks(table: Table, description: Format) -> None:
    marks = {
        "decimal": description.decimal,
        "thousands": description.thousands,
        "delimiter": description.delimiter,
        "quote": description.quote,
    }
    used: dict[str, str] = {}
    for key, mark in marks.items():
        if mark and mark in used:
            table.refuse(key, f"expected a mark of its own, found {mark!r}, which is also the {used[mark]}")
        used.setdefault(mark, key)
    if set(description.true_tokens) & set(description.false_tokens):
        table.refuse("true_tokens", "expected no token that is also in 'false_tokens'")


def _check_kind(table: Table, kind: FileKind) -> None:
    meaningless: tuple[str, ...] = ()
    if kind is not FileKind.DELIMITED:
        meaningless += _DELIMITED_ONLY
    if kind is FileKind.PARQUET:
        meaningless += _TEXT_ONLY
    for key in meaningless:
        if key in table.values:
            table.refuse(key, f"has no meaning for kind '{kind}'")
