"""Tables: drawn on a terminal, plain columns for whatever reads a pipe."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from disarray.cli.support.terminal import open_console, visible_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType

# A cell up to this long (an instant with its offset) is read as one word and never folded; longer ones may be.
_UNFOLDED = 26
_GAP = 3  # between two columns as they are drawn
_NUMBER = re.compile(r"[+-]?[\d,]+(\.\d+)?(e[+-]?\d+)?|-")


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; where all headings are empty, rows alone."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def plain(self) -> Iterable[str]:
        """One line per row, every column as wide as its widest value and nothing cut off."""
        lines = [self.headings, *self.rows] if any(self.headings) else self.rows
        shown = [[visible_cell(value) for value in line] for line in lines]
        widths = [max(len(line[column]) for line in shown) for column in range(len(self.headings))]
        for line in shown:
            yield "  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip()

    def drawn(self) -> RenderableType:
        """The same for a person at a terminal, folded to its width.

        Columns in which nothing stands are left out, files of the project are named from here on.
        """
        shown = [[visible_cell(_from_here(value)) for value in row] for row in self.rows]
        used = [
            column
            for column in range(len(self.headings))
            if not self.headings[column] or not shown or any(row[column] for row in shown)
        ]
        return _Drawn(
            [self.headings[column] for column in used], [[row[column] for column in used] for row in shown]
        )


@dataclass(frozen=True)
class _Drawn:
    """A table for the width at hand: row below row where they do not fit beside each other."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        widths = [
            max(len(heading), *(len(row[column]) for row in self.rows)) if self.rows else len(heading)
            for column, heading in enumerate(self.headings)
        ]
        needed = sum(min(width, _UNFOLDED) + _GAP for width in widths)
        if any(self.headings) and needed > options.max_width:
            yield self._blocks()
        else:
            yield self._table(widths)

    def _table(self, widths: Sequence[int]) -> RenderableType:
        from rich import box
        from rich.table import Table as DrawnTable
        from rich.text import Text

        drawn = DrawnTable(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(self.headings))
        for column, heading in enumerate(self.headings):
            are_numbers = bool(self.rows) and all(_NUMBER.fullmatch(row[column]) for row in self.rows)
            drawn.add_column(
                heading,
                overflow="fold",
                no_wrap=widths[column] <= _UNFOLDED,
                justify="right" if are_numbers else "left",
            )
        for row in self.rows:
            # Names are text: one that looks like markup must not be taken for it.
            drawn.add_row(*(Text(value) for value in row))
        return drawn

    def _blocks(self) -> RenderableType:
        from rich.console import Group
        from rich.padding import Padding
        from rich.table import Table as DrawnTable
        from rich.text import Text

        blocks = []
        for row in self.rows:
            block = DrawnTable.grid(padding=(0, 2))
            block.add_column(no_wrap=True, style="bold")
            block.add_column(overflow="fold")
            for heading, value in zip(self.headings, row, strict=True):
                if value:
                    block.add_row(Text(heading), Text(value))
            blocks.append(Padding(block, (1, 0, 0, 0)))
        return Padding(Group(*blocks), (0, 0, 1, 0))


def _from_here(value: str) -> str:
    """A file below the current folder by its path from here, which every command takes as well."""
    from urllib.parse import unquote

    if not value.startswith("file://"):
        return value
    # A part is named by its file and by what follows it.
    file, mark, part = value.removeprefix("file://").partition("#")
    path = Path(unquote(file))
    try:
        return f"{path.relative_to(Path.cwd())}{mark}{part}"
    except (OSError, ValueError):
        return value


def is_terminal() -> bool:
    """Whether a person reads what is printed."""
    return sys.stdout.isatty()


def print_parts(parts: Iterable[Table | str]) -> None:
    """Print tables and lines of text, one below the other."""
    if is_terminal():
        open_console().print(drawn_parts(parts))
        return
    for part in parts:
        for line in [part] if isinstance(part, str) else part.plain():
            typer.echo(line)


def drawn_parts(parts: Iterable[Table | str]) -> RenderableType:
    """Tables and lines of text as one thing to show on a terminal."""
    from rich.console import Group
    from rich.text import Text

    return Group(*(Text(part) if isinstance(part, str) else part.drawn() for part in parts))
