"""Tables: drawn on a terminal, plain columns for whatever reads a pipe."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; where all headings are empty, rows alone."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def plain(self) -> Iterable[str]:
        """One line per row, every column as wide as its widest value and nothing cut off."""
        lines = [self.headings, *self.rows] if any(self.headings) else self.rows
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.headings))]
        for line in lines:
            yield "  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip()

    def drawn(self) -> RenderableType:
        """The same for a person at a terminal, folded to its width."""
        from rich import box
        from rich.table import Table as DrawnTable
        from rich.text import Text

        drawn = DrawnTable(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(self.headings))
        for heading in self.headings:
            drawn.add_column(heading, overflow="fold")
        for row in self.rows:
            # Names are text: one that looks like markup must not be taken for it.
            drawn.add_row(*(Text(value) for value in row))
        return drawn


def is_terminal() -> bool:
    """Whether a person reads what is printed."""
    return sys.stdout.isatty()


def print_parts(parts: Iterable[Table | str]) -> None:
    """Print tables and lines of text, one below the other."""
    if is_terminal():
        from rich.console import Console

        Console().print(drawn_parts(parts))
        return
    for part in parts:
        for line in [part] if isinstance(part, str) else part.plain():
            typer.echo(line)


def drawn_parts(parts: Iterable[Table | str]) -> RenderableType:
    """Tables and lines of text as one thing to show on a terminal."""
    from rich.console import Group
    from rich.text import Text

    return Group(*(Text(part) if isinstance(part, str) else part.drawn() for part in parts))
