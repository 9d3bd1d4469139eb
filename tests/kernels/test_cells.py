from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyarrow import csv

from disarray.kernels.parsing.cells import split_line
from disarray.kernels.parsing.rejects import RejectReason, RowRejected
from disarray.model.description.format import Format, QuoteEscape

CSV = Format(name="csv")


def split_or_none(text: str) -> list[str] | None:
    with suppress(RowRejected):
        return split_line(text, CSV)
    return None


@given(st.text('ab,"', max_size=14))
def test_a_line_is_cut_as_arrow_cuts_it(text: str) -> None:
    assume(text)
    cells = split_or_none(text)
    assume(cells is not None)
    assert cells is not None
    names = [str(at) for at in range(len(cells))]
    table = csv.read_csv(
        pa.py_buffer(text.encode() + b"\n"),
        read_options=csv.ReadOptions(column_names=names, use_threads=False),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    assert [table.column(name)[0].as_py() for name in names] == cells


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ('1,"a,b",2', ["1", "a,b", "2"]),
        ('1,"say ""hi""",2', ["1", 'say "hi"', "2"]),
        ('5" pipe,2', ['5" pipe', "2"]),
        ('"a"b,2', ["ab", "2"]),
        ("", [""]),
        (",", ["", ""]),
    ],
)
def test_quotes_count_only_where_a_cell_begins(text: str, cells: list[str]) -> None:
    assert split_line(text, CSV) == cells


@pytest.mark.parametrize("text", ['"', 'a,"b', '"a""', 'a,"b"",c'])
def test_a_quote_left_open_rejects_the_line(text: str) -> None:
    with pytest.raises(RowRejected) as caught:
        split_line(text, CSV)
    assert caught.value.reason is RejectReason.UNTERMINATED_QUOTE


def test_backslash_escapes_are_undone_inside_quotes_alone() -> None:
    fmt = replace(CSV, quote_escape=QuoteEscape.BACKSLASH)
    assert split_line(r'C:\a,"say \"hi\" \\",2', fmt) == [r"C:\a", 'say "hi" \\', "2"]


def test_a_format_without_quotes_takes_them_as_text() -> None:
    assert split_line('1,"a,2', replace(CSV, quote="")) == ["1", '"a', "2"]
