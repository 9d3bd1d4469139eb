"""One line into cells, by the rule that Arrow's CSV parser follows within a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.kernels.parsing.rejects import RejectReason, RowRejected
from disarray.model.description.format import QuoteEscape

if TYPE_CHECKING:
    from disarray.model.description.format import Format

BLANKS = " \t"


def split_line(text: str, fmt: Format) -> list[str]:
    """Cut one line at the delimiter.

    A quote opens a cell only as its first character; elsewhere it is ordinary text (5" pipe). What follows a
    closing quote belongs to the cell. A quote that is still open at the end of the line rejects the line:
    line breaks inside cells are not supported, since a reader that starts mid-file could not tell them from
    ends of lines.
    """
    if not fmt.quote or fmt.quote not in text:
        return text.split(fmt.delimiter)
    cells: list[str] = []
    at = 0
    while True:
        cell, at = _next_cell(text, at, fmt)
        cells.append(cell)
        if at >= len(text):
            return cells
        at += len(fmt.delimiter)
        if at == len(text):
            return [*cells, ""]


def _next_cell(text: str, at: int, fmt: Format) -> tuple[str, int]:
    quoted = ""
    if text.startswith(fmt.quote, at):
        quoted, at = _quoted_part(text, at + 1, fmt)
    end = text.find(fmt.delimiter, at)
    end = len(text) if end < 0 else end
    return quoted + text[at:end], end


def _quoted_part(text: str, at: int, fmt: Format) -> tuple[str, int]:
    parts: list[str] = []
    while at < len(text):
        character = text[at]
        if character == "\\" and fmt.quote_escape is QuoteEscape.BACKSLASH and at + 1 < len(text):
            parts.append(text[at + 1])
            at += 2
        elif character != fmt.quote:
            parts.append(character)
            at += 1
        elif fmt.quote_escape is QuoteEscape.DOUBLE and text.startswith(fmt.quote, at + 1):
            parts.append(fmt.quote)
            at += 2
        else:
            return "".join(parts), at + 1
    raise RowRejected(RejectReason.UNTERMINATED_QUOTE)
