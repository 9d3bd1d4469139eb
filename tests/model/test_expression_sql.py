from __future__ import annotations

import pytest

from disarray.model.description.format import ColumnType
from disarray.model.expression.parser import parse_expression
from disarray.model.expression.spark_sql import quoted_name, quoted_text, spark_sql
from disarray.model.expression.tree import Literal

COLUMNS = {"i": ColumnType.INT64, "x": ColumnType.FLOAT64, "b": ColumnType.BOOL, "s": ColumnType.STRING}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i + 1", "try_add(`i`, 1L)"),
        ("i < 0.1", "(cast(`i` as double) < 0.1D)"),
        ("not b or s = 'C'", "((not `b`) or (`s` = 'C'))"),
        ("x is not null", "(`x` is not null)"),
        ("coalesce(x, i)", "coalesce(`x`, cast(`i` as double))"),
        ("case when b then 1 else x end", "case when `b` then cast(1L as double) else `x` end"),
        ("floor(i)", "cast(`i` as double)"),
        (
            "x / 2",
            "get(filter(array((try_divide(`x`, cast(2L as double)) + 0.0D)), v0 -> abs(v0) < double('Infinity')), 0)",
        ),
    ],
)
def test_types_are_spelled_out_and_nothing_depends_on_the_session(text: str, expected: str) -> None:
    assert spark_sql(parse_expression(text), COLUMNS) == expected


def test_a_value_that_is_needed_twice_is_written_once() -> None:
    nested = "x"
    for _ in range(12):
        nested = f"floor({nested} * 2.0)"
    assert spark_sql(parse_expression(nested), COLUMNS).count("`x`") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("it's", r"'it\'s'"), ("a\\n", r"'a\\n'"), ("${env:HOME}", r"'\u0024{env:HOME}'")],
)
def test_a_text_cannot_leave_its_literal(text: str, expected: str) -> None:
    assert quoted_text(text) == expected
    assert spark_sql(Literal(text), COLUMNS) == expected


def test_a_name_cannot_leave_its_quotes() -> None:
    assert quoted_name("a`b") == "`a``b`"
