"""Type-check of expressions: what cannot be computed alike everywhere is refused at load, not at run time."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, assert_never

from disarray.errors import ExpressionError
from disarray.model.description.format import ColumnType
from disarray.model.expression.tree import (
    ARITHMETIC,
    COMPARISONS,
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
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NUMERIC = frozenset({ColumnType.INT64, ColumnType.FLOAT64})
_LITERAL_TYPES: dict[type, ColumnType] = {
    bool: ColumnType.BOOL,
    int: ColumnType.INT64,
    float: ColumnType.FLOAT64,
    str: ColumnType.STRING,
}


def type_of(expression: Expression, columns: Mapping[str, ColumnType]) -> ColumnType:
    """The type of the value, given the types of the columns; a misfit is an ExpressionError."""
    match expression:
        case Literal(value):
            return _LITERAL_TYPES[type(value)]
        case ColumnRef():
            return _column_type(expression, columns)
        case Negate(operand):
            return _numeric(operand, columns, of="'-'")
        case Not(operand):
            return _condition(operand, columns, of="'not'")
        case IsNull(operand):
            type_of(operand, columns)
            return ColumnType.BOOL
        case Binary():
            return _binary_type(expression, columns)
        case Call():
            return _call_type(expression, columns)
        case Case(branches, otherwise):
            for condition, _ in branches:
                _condition(condition, columns, of="'when'")
            values = [value for _, value in branches]
            return _common_type([*values, otherwise] if otherwise else values, columns, of="'case'")
        case _:
            assert_never(expression)


def _column_type(reference: ColumnRef, columns: Mapping[str, ColumnType]) -> ColumnType:
    found = columns.get(reference.name)
    if found is None:
        near = get_close_matches(reference.name, list(columns), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(columns)) or 'none'}"
        raise ExpressionError(f"there is no column {reference.name!r}; {hint}", position=reference.position)
    return found


def _binary_type(expression: Binary, columns: Mapping[str, ColumnType]) -> ColumnType:
    operator = expression.operator
    if operator in (Operator.AND, Operator.OR):
        _condition(expression.left, columns, of=repr(operator.value))
        return _condition(expression.right, columns, of=repr(operator.value))
    if operator in ARITHMETIC:
        left = _numeric(expression.left, columns, of=repr(operator.value))
        right = _numeric(expression.right, columns, of=repr(operator.value))
        exact = left == right == ColumnType.INT64 and operator is not Operator.DIVIDE
        return ColumnType.INT64 if exact else ColumnType.FLOAT64
    assert operator in COMPARISONS
    compared = _common_type([expression.left, expression.right], columns, of=repr(operator.value))
    if compared is ColumnType.BOOL and operator not in (Operator.EQUAL, Operator.NOT_EQUAL):
        raise ExpressionError(
            f"true and false have no order; {operator} cannot compare them", position=expression.position
        )
    return ColumnType.BOOL


def _call_type(call: Call, columns: Mapping[str, ColumnType]) -> ColumnType:
    match call.function:
        case Function.COALESCE:
            return _common_type(call.arguments, columns, of="coalesce")
        case Function.LEAST | Function.GREATEST:
            for argument in call.arguments:
                _numeric(argument, columns, of=call.function)
            return _common_type(call.arguments, columns, of=call.function)
        case Function.ABS:
            return _numeric(call.arguments[0], columns, of="abs")
        case Function.FLOOR | Function.CEIL | Function.SQRT:
            _numeric(call.arguments[0], columns, of=call.function)
            return ColumnType.FLOAT64
        case _:
            assert_never(call.function)


def _common_type(parts: Sequence[Expression], columns: Mapping[str, ColumnType], *, of: str) -> ColumnType:
    types = [type_of(part, columns) for part in parts]
    if set(types) <= NUMERIC:
        return ColumnType.FLOAT64 if ColumnType.FLOAT64 in types else ColumnType.INT64
    for part, found in zip(parts, types, strict=True):
        if found is not types[0]:
            raise ExpressionError(f"{of} mixes {types[0]} and {found}", position=part.position)
    return types[0]


def _numeric(expression: Expression, columns: Mapping[str, ColumnType], *, of: str) -> ColumnType:
    found = type_of(expression, columns)
    if found not in NUMERIC:
        raise ExpressionError(f"{of} needs a number, found {found}", position=expression.position)
    return found


def _condition(expression: Expression, columns: Mapping[str, ColumnType], *, of: str) -> ColumnType:
    found = type_of(expression, columns)
    if found is not ColumnType.BOOL:
        raise ExpressionError(f"{of} needs a condition, found {found}", position=expression.position)
    return found
