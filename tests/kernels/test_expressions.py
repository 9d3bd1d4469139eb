from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disarray.engine.verification import arrow_expressions
from disarray.errors import ExpressionOverflowError
from disarray.kernels.scanning.expressions import evaluate
from disarray.model.description.format import ColumnType
from disarray.model.expression.parser import parse_expression
from disarray.model.expression.type_check import type_of
from tests.kernels.expression_reference import (
    COLUMNS,
    IntegerOverflowError,
    Value,
    bits,
    evaluate_row,
    random_expression,
    random_rows,
    table_of,
)

if TYPE_CHECKING:
    from disarray.model.expression.tree import Expression


def one(text: str, **columns: Value) -> Value:
    table = pa.table({name: pa.array([value]) for name, value in columns.items()} or {"unused": [0]})
    value: Value = evaluate(parse_expression(text), table).to_pylist()[0]
    return value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 / 0", None),
        ("1 / 2", 0.5),
        ("7 / 7", 1.0),
        ("sqrt(-1)", None),
        ("1e308 * 10.0", None),
        ("1e308 * 10.0 is null", True),
        ("1.0 / (1e308 * 10.0)", None),
        ("-0.0", 0.0),
        ("0.0 * -1.0", 0.0),
        ("ceil(-0.5)", 0.0),
        ("floor(2.5)", 2.0),
        ("floor(7)", 7.0),
        ("least(3, 2.5)", 2.5),
        ("coalesce(1 / 0, 3)", 3.0),
        ("false and 1 / 0 > 1", False),
        ("true or 1 / 0 > 1", True),
        ("true and 1 / 0 > 1", None),
        ("not (1 / 0 > 1)", None),
        ("'a' < 'B'", False),
        ("case when false then 1 end", None),
        ("case when false then 1 else 2.5 end", 2.5),
        ("9223372036854775807 - 1", 2**63 - 2),
    ],
)
def test_edge_of_the_language_has_one_value(text: str, expected: Value) -> None:
    assert bits(one(text)) == bits(expected)


def test_least_and_greatest_pass_over_null() -> None:
    table = pa.table({"a": pa.array([None, 1.0, None]), "b": pa.array([2.0, 3.0, None])})
    assert evaluate(parse_expression("least(a, b)"), table).to_pylist() == [2.0, 1.0, None]
    assert evaluate(parse_expression("greatest(a, b)"), table).to_pylist() == [2.0, 3.0, None]


@pytest.mark.parametrize("text", ["i + 1", "i * 2", "-(-i - 1) + 1", "abs(-i - 1)", "i - (-1)"])
def test_whole_numbers_that_leave_int64_are_an_error(text: str) -> None:
    with pytest.raises(ExpressionOverflowError, match="leaves int64"):
        one(text, i=2**63 - 1)


@pytest.mark.parametrize("text", ["-1 * i", "i * -1", "-i", "abs(i)", "i - 1", "i * 2"])
def test_the_lowest_whole_number_has_no_opposite(text: str) -> None:
    with pytest.raises(ExpressionOverflowError, match="leaves int64"):
        one(text, i=-(2**63))


def test_overflow_in_a_branch_that_is_not_taken_is_no_error() -> None:
    assert one("case when i < 100 then i * i else 0 end", i=2**63 - 1) == 0
    assert one("coalesce(i, i * i)", i=2**63 - 1) == 2**63 - 1


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**63), extreme=st.booleans(), kind=st.sampled_from(ColumnType))
def test_random_trees_give_the_bits_of_a_row_by_row_evaluation(
    seed: int, extreme: bool, kind: ColumnType
) -> None:
    source = random.Random(seed)
    expression = random_expression(source, kind, source.randint(0, 5))
    rows = random_rows(source, 12, extreme=extreme)
    try:
        expected = [evaluate_row(expression, row) for row in rows]
    except IntegerOverflowError:
        with pytest.raises(ExpressionOverflowError):
            evaluate(expression, table_of(rows))
        return
    found = evaluate(expression, table_of(rows)).to_pylist()
    assert list(map(bits, found)) == [bits(_typed(value, expression)) for value in expected]


def _typed(value: Value, expression: Expression) -> Value:
    is_float = type_of(expression, COLUMNS) is ColumnType.FLOAT64
    return float(value) if is_float and value is not None else value


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 2**63),
    extreme=st.booleans(),
    kind=st.sampled_from([kind for kind in ColumnType if kind is not ColumnType.TIMESTAMP]),
)
def test_the_expressions_of_verify_give_the_bits_of_a_row_by_row_evaluation(
    seed: int, extreme: bool, kind: ColumnType
) -> None:
    source = random.Random(seed)
    expression = random_expression(source, kind, source.randint(0, 5))
    for row in random_rows(source, 12, extreme=extreme):
        found = arrow_expressions.evaluate(expression, table_of([row])).to_pylist()[0]
        try:
            expected = _typed(evaluate_row(expression, row), expression)
        except IntegerOverflowError:
            continue
        assert bits(found) == bits(expected)


@pytest.mark.parametrize("text", ["i + 1", "i * 2", "abs(-i - 1)", "i - (-1)"])
def test_whole_numbers_that_leave_int64_are_null_to_verify(text: str) -> None:
    table = pa.table({"i": pa.array([2**63 - 1, 4])})
    assert arrow_expressions.evaluate(parse_expression(text), table).is_valid().to_pylist() == [False, True]
