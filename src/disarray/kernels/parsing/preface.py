"""What stands before the readings: preamble, header, units row."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.cells import BLANKS, split_line
from disarray.kernels.parsing.rejects import RowRejected
from disarray.model.fingerprints import ParserState, Phase

if TYPE_CHECKING:
    from disarray.model.description.format import Format


def is_header_line(text: str, number: int, fmt: Format) -> bool:
    """Whether this line of the preface names the cells."""
    if fmt.header.line is not None:
        return number >= fmt.header.line
    if fmt.header.pattern:
        return re.search(fmt.header.pattern, text) is not None
    return not _is_preamble(text, number, fmt)


def ends_preamble(text: str, number: int, fmt: Format) -> bool:
    """Whether this line is already a reading, in a format without a header line."""
    return bool(fmt.header.names) and not _is_preamble(text, number, fmt)


def _is_preamble(text: str, number: int, fmt: Format) -> bool:
    if fmt.comment and text.startswith(fmt.comment):
        return True
    if fmt.preamble.lines is not None:
        return number <= fmt.preamble.lines
    if fmt.preamble.pattern:
        return re.search(fmt.preamble.pattern, text) is not None
    return not text.strip(BLANKS)


def header_cells(text: str, fmt: Format) -> tuple[str, ...]:
    """The names in a header line, stripped."""
    cells = tuple(cell.strip() for cell in split_line(text, fmt))
    if fmt.trailing_delimiter and cells and not cells[-1]:
        cells = cells[:-1]
    return cells


def after_header(state: ParserState, cells: tuple[str, ...], fmt: Format) -> ParserState:
    """The state once a header is in force."""
    return replace(state, header=cells, phase=Phase.UNITS if fmt.header.units_row else Phase.BODY)


def with_fields(state: ParserState, text: str, fmt: Format, *, again: bool = False) -> ParserState:
    """The state with the preamble fields that this line holds; the first line that matches wins, unless `again`."""
    fields = dict(state.fields)
    for field in fmt.preamble.fields:
        if field.name in fields and not again:
            continue
        match = re.search(field.pattern, text)
        if match is not None:
            named = "value" in match.re.groupindex
            fields[field.name] = (match["value"] if named else match[1] or "").strip()
    found = tuple(sorted(fields.items()))
    return state if found == state.fields else replace(state, fields=found)


def is_preamble_again(text: str, fmt: Format) -> bool:
    """Whether a line among the readings opens another session in the same file."""
    if not fmt.header.repeats:
        return False
    if fmt.preamble.pattern and re.search(fmt.preamble.pattern, text):
        return True
    return any(re.search(field.pattern, text) for field in fmt.preamble.fields)


def guard_preamble(number: int, fmt: Format) -> None:
    """Fail a file in which no header comes: it is not of this format."""
    allowed = max(fmt.preamble.max_lines, fmt.preamble.lines or 0, fmt.header.line or 0)
    if number > allowed:
        wanted = f" that matches /{fmt.header.pattern}/" if fmt.header.pattern else ""
        raise UnreadableFileError(
            f"no header line{wanted} in the first {allowed} lines; is it a {fmt.name} file?"
        )


def lenient_text(raw: bytes, fmt: Format) -> str:
    """A preamble line as text, whatever is in it: free text may be damaged without harm to the readings."""
    for encoding in fmt.encodings:
        try:
            return raw.decode(encoding).rstrip("\r")
        except UnicodeDecodeError:
            continue
    return raw.decode("ascii", "backslashreplace").rstrip("\r")


def try_header_cells(text: str, fmt: Format) -> tuple[str, ...] | None:
    """The cells of a line that may be a header, or None if it cannot be split."""
    try:
        return header_cells(text, fmt)
    except RowRejected:
        return None
