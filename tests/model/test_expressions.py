from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.errors import ExpressionError
from disarray.model.description.format import ColumnType
from disarray.model.expression.canonical_text import canonical_text
from disarray.model.expression.parser import MAX_DEPTH, MAX_NESTING, parse_expression
from disarray.model.expression.tree import (
    KEYWORDS,
    VARIADIC,
    Binary,
    Call,
    Case,
    ColumnRef,
    Expression,
    Function,
    IsNull,
    Literal,
    Negate,
    Not,
    Operator,
    columns_in,
)
from disarray.model.expression.type_check import type_of

COLUMNS = {
    "amps": ColumnType.FLOAT64,
    "volts": ColumnType.FLOAT64,
    "count": ColumnType.INT64,
    "state": ColumnType.STRING,
    "ok": ColumnType.BOOL,
    "updated": ColumnType.TIMESTAMP,
}

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in KEYWORDS and name not in set(Function)
)
literals = st.one_of(
    st.integers(min_value=0, max_value=2**63 - 1),
    st.floats(min_value=0, allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0),
    st.text(max_size=6),
    st.booleans(),
).map(Literal)


def _compound(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    arguments = st.lists(inner, min_size=2, max_size=3).map(tuple)
    single = st.sampled_from(sorted(set(Function) - VARIADIC))
    return st.one_of(
        st.builds(Negate, inner),
        st.builds(Not, inner),
        st.builds(IsNull, inner, st.booleans()),
        st.builds(Binary, st.sampled_from(Operator), inner, inner),
        st.builds(Call, st.sampled_from(sorted(VARIADIC)), arguments),
        st.builds(lambda function, argument: Call(function, (argument,)), single, inner),
        st.builds(
            Case, st.lists(st.tuples(inner, inner), min_size=1, max_size=2).map(tuple), st.none() | inner
        ),
    )


trees: st.SearchStrategy[Expression] = st.recursive(literals | names.map(ColumnRef), _compound, max_leaves=12)


@given(trees)
def test_the_canonical_text_parses_to_the_same_tree(tree: Expression) -> None:
    text = canonical_text(tree)
    assert parse_expression(text) == tree
    assert canonical_text(parse_expression(text)) == text


@given(st.text(alphabet="abc019.+-*/()<>=', eE casewhnd\n", max_size=60))
def test_any_text_is_an_expression_or_a_clear_refusal(text: str) -> None:
    with suppress(ExpressionError):
        assert parse_expression(canonical_text(parse_expression(text))) == parse_expression(text)


@given(trees)
def test_a_tree_has_a_type_or_a_clear_refusal(tree: Expression) -> None:
    with suppress(ExpressionError):
        assert type_of(tree, COLUMNS) in ColumnType


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("amps*volts", "amps * volts"),
        ("(a+b)+c", "a + b + c"),
        ("a+(b+c)", "a + (b + c)"),
        ("a - (b - c)", "a - (b - c)"),
        ("-(a+b)", "-(a + b)"),
        ("not (a = 1 and b = 2)", "not (a = 1 and b = 2)"),
        ("(a or b) and c", "(a or b) and c"),
        ("case when amps>0 then amps else 0.0 end", "case when amps > 0 then amps else 0.0 end"),
        ("state = 'it''s'", "state = 'it''s'"),
        ("1e3", "1000.0"),
        ("(a is not null)", "a is not null"),
        ("(a = b) = c", "(a = b) = c"),
    ],
)
def test_the_canonical_text_keeps_only_parentheses_that_matter(text: str, canonical: str) -> None:
    assert canonical_text(parse_expression(text)) == canonical


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("count + 1", ColumnType.INT64),
        ("count / 2", ColumnType.FLOAT64),
        ("count * 0.5", ColumnType.FLOAT64),
        ("abs(count)", ColumnType.INT64),
        ("floor(amps)", ColumnType.FLOAT64),
        ("greatest(amps, 0)", ColumnType.FLOAT64),
        ("coalesce(state, 'R')", ColumnType.STRING),
        ("state = 'C' and amps > 0.01", ColumnType.BOOL),
        ("case when ok then 1 end", ColumnType.INT64),
        ("updated is null", ColumnType.BOOL),
    ],
)
def test_types_follow_the_operands(text: str, type_: ColumnType) -> None:
    assert type_of(parse_expression(text), COLUMNS) is type_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("amp * 2", r"no column 'amp'; did you mean 'amps'\?"),
        ("state + 1", "'\\+' needs a number, found string"),
        ("amps and ok", "'and' needs a condition, found float64"),
        ("state = 1", "'=' mixes string and int64"),
        ("ok < true", "no order"),
        ("case when amps then 1 end", "'when' needs a condition"),
        ("case when ok then 1 else 'x' end", "mixes int64 and string"),
        ("least(state, 'x')", "least needs a number"),
    ],
)
def test_a_misfit_between_expression_and_columns_is_named(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        type_of(parse_expression(text), COLUMNS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("amps +", "at character 6, found the end"),
        ("amps == 1", "write '='"),
        ("amps != 1", "write '<>'"),
        ("a < b < c", "expected the end of the expression"),
        ("absolute(amps)", "no function 'absolute'"),
        ("sqr(amps)", "did you mean 'sqrt'"),
        ("abs(a, b)", "takes one argument, not 2"),
        ("least(a)", "at least two"),
        ("amps % 2", "'% 2' at character 5"),
        ("case else 1 end", "'when'"),
        ("99999999999999999999", "int64"),
        ("1e999", "float64"),
        ("'open", "not understood"),
        ("", "found the end"),
        ("exp(amps)", "no function 'exp'"),
    ],
)
def test_a_text_that_is_no_expression_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        parse_expression(text)


def test_deep_nesting_is_refused_before_python_runs_out_of_stack() -> None:
    with pytest.raises(ExpressionError, match="parentheses"):
        parse_expression("(" * (MAX_NESTING + 1) + "1" + ")" * (MAX_NESTING + 1))
    with pytest.raises(ExpressionError, match="deeper"):
        parse_expression(" + ".join(["a"] * (MAX_DEPTH + 1)))
    with pytest.raises(ExpressionError, match="deeper"):
        parse_expression("-" * 3_000 + "1")


def test_an_endless_expression_is_refused() -> None:
    with pytest.raises(ExpressionError, match="characters"):
        parse_expression("a" * 5_000)


def test_the_columns_of_an_expression_are_known() -> None:
    expression = parse_expression("case when state = 'C' then amps * volts else coalesce(x, 1) end")
    assert columns_in(expression) == {"state", "amps", "volts", "x"}


def test_equal_numbers_of_different_type_are_different_literals() -> None:
    assert Literal(1) != Literal(1.0)
    assert Literal(1) != Literal(True)
    assert len({Literal(1), Literal(1.0), Literal(True)}) == 3
