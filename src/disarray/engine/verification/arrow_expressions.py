"""Expressions by Arrow's compute functions: NULL is Arrow's own, and nothing is shared with the kernels.

A float that is not finite is NULL wherever it comes up. Whole numbers that leave int64 are NULL here and an error in
the kernels: such numbers were never stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from disarray.model.expression.tree import (
    ARITHMETIC,
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
    from collections.abc import Callable, Mapping, Sequence

Values = Any  # an Arrow array; its stubs lose the type with every function

_LIMIT = 1 << 63
# Floats below this are exact enough to say that a whole result fits.
_SURELY_FITS = float(1 << 62)
_LITERALS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_COMPARISONS: Mapping[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_EQUAL: pc.greater_equal,
}
_ARROW: Mapping[Operator, Callable[[Any, Any], Any]] = {
    Operator.ADD: pc.add,
    Operator.SUBTRACT: pc.subtract,
    Operator.MULTIPLY: pc.multiply,
    Operator.DIVIDE: pc.divide,
}
_PYTHON: Mapping[Operator, Callable[[int, int], int]] = {
    Operator.ADD: int.__add__,
    Operator.SUBTRACT: int.__sub__,
    Operator.MULTIPLY: int.__mul__,
}


def evaluate(expression: Expression, table: pa.Table) -> Values:
    """The value of an expression for each row of a table."""
    match expression:
        case Literal(value):
            literal = value + 0.0 if isinstance(value, float) else value
            return pa.repeat(pa.scalar(literal, _LITERALS[type(value)]), table.num_rows)
        case ColumnRef(name):
            return _flat(table.column(name))
        case Negate(operand):
            part = evaluate(operand, table)
            return _calculate(Operator.SUBTRACT, pa.repeat(pa.scalar(0, part.type), len(part)), part)
        case Not(operand):
            return pc.invert(evaluate(operand, table))
        case IsNull(operand, negated):
            part = evaluate(operand, table)
            return pc.is_valid(part) if negated else pc.is_null(part)
        case Binary(operator, left, right):
            return _binary(operator, evaluate(left, table), evaluate(right, table))
        case Call(function, arguments):
            return _call(function, [evaluate(argument, table) for argument in arguments])
        case Case(branches, otherwise):
            values = [evaluate(value, table) for _, value in branches]
            if otherwise is not None:
                values.append(evaluate(otherwise, table))
            values = _alike(values)
            result = values.pop() if otherwise is not None else pa.nulls(table.num_rows, values[0].type)
            for (condition, _), value in zip(reversed(branches), reversed(values), strict=True):
                is_true = pc.fill_null(evaluate(condition, table), False)
                result = pc.if_else(is_true, value, result)
            return result
        case _:
            assert_never(expression)


def _binary(operator: Operator, left: Values, right: Values) -> Values:
    if operator in ARITHMETIC:
        return _calculate(operator, left, right)
    if operator is Operator.AND:
        return pc.and_kleene(left, right)
    if operator is Operator.OR:
        return pc.or_kleene(left, right)
    left, right = _alike([left, right])
    return _COMPARISONS[operator](left, right)


def _calculate(operator: Operator, left: Values, right: Values) -> Values:
    if operator is Operator.DIVIDE:
        left, right = _float(left), _float(right)
    left, right = _alike([left, right])
    if pa.types.is_floating(left.type):
        return _finite(pc.add(_ARROW[operator](left, right), 0.0))
    # Arrow wraps around where a whole number does not fit, and a float tells that it may not.
    size = pc.max(pc.abs(_ARROW[operator](_float(left), _float(right)))).as_py()
    if size is None or size < _SURELY_FITS:
        return _ARROW[operator](left, right)
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return _whole([None if None in pair else _PYTHON[operator](*pair) for pair in pairs])


def _call(function: Function, arguments: Sequence[Values]) -> Values:
    match function:
        case Function.COALESCE:
            return pc.coalesce(*_alike(arguments))
        case Function.LEAST:
            return pc.min_element_wise(*_alike(arguments), skip_nulls=True)
        case Function.GREATEST:
            return pc.max_element_wise(*_alike(arguments), skip_nulls=True)
        case Function.ABS:
            [part] = arguments
            if pa.types.is_floating(part.type) or pc.min(part).as_py() != -_LIMIT:
                return pc.abs(part)
            return _whole([None if value is None else abs(value) for value in part.to_pylist()])
        case Function.FLOOR:
            return pc.add(pc.floor(_float(arguments[0])), 0.0)
        case Function.CEIL:
            return pc.add(pc.ceil(_float(arguments[0])), 0.0)
        case Function.SQRT:
            return _finite(pc.sqrt(_float(arguments[0])))
        case _:
            assert_never(function)


def _whole(values: Sequence[int | None]) -> Values:
    return pa.array(
        [value if value is not None and -_LIMIT <= value < _LIMIT else None for value in values], pa.int64()
    )


def _finite(values: Values) -> Values:
    is_finite = pc.is_finite(values)
    if pc.all(is_finite, min_count=0).as_py():
        return values
    return pc.if_else(is_finite, values, pa.scalar(None, pa.float64()))


def _alike(parts: Sequence[Values]) -> list[Values]:
    if any(pa.types.is_floating(part.type) for part in parts):
        return [_float(part) for part in parts]
    return list(parts)


def _float(values: Values) -> Values:
    return values if pa.types.is_floating(values.type) else pc.cast(values, pa.float64(), safe=False)


def _flat(column: pa.ChunkedArray[Any]) -> Values:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
