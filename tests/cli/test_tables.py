"""Tables on a terminal: what is read as one word is never broken, whatever the width."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from disarray.cli.support.text_tables import Table, drawn_parts

INSTANT = "2026-09-02T08:30:00+05:30"
ROW = [INSTANT, INSTANT, "", "", "30", "10.0059833333", "final"]
TABLE = Table(["from", "to", "shift", "channel", "parts", "mean_width", ""], [ROW, ROW])


def drawn(table: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(drawn_parts([table]))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", range(40, 130, 10))
def test_instants_and_numbers_are_whole_at_every_width(width: int) -> None:
    shown = drawn(TABLE, width)
    assert shown.count(INSTANT) == 4
    assert shown.count("10.0059833333") == 2
    assert max(map(len, shown.splitlines())) <= width


def test_columns_without_a_value_are_left_out_on_a_terminal_and_stay_in_a_pipe() -> None:
    shown = drawn(TABLE, 120)
    assert "mean_width" in shown
    assert "shift" not in shown
    assert "channel" not in shown
    assert next(iter(TABLE.plain())).split() == ["from", "to", "shift", "channel", "parts", "mean_width"]


def test_files_of_the_project_are_named_from_here() -> None:
    inside, outside = (Path.cwd() / "in box" / "a.csv").as_uri(), "file:///elsewhere/b.csv"
    table = Table(["file", "readings"], [[inside, "1"], [outside, "22"]])
    shown = drawn(table, 80)
    assert "in box/a.csv" in shown
    assert outside in shown
    assert inside not in shown
    assert inside in "".join(table.plain())


def test_a_long_text_is_folded_and_loses_nothing() -> None:
    text = "word " * 40
    shown = drawn(Table(["when", "what"], [[INSTANT, text.strip()]]), 80)
    assert shown.count("word") == 40
