"""Expressions over readings: one tree, NumPy and Arrow underneath, NULL as SQL has it.

Every float result gets `+ 0.0`, and one that is not finite becomes NULL, as do `x / 0` and the square root of a
negative number. `and`, `or` look at both sides; of `case` and `coalesce` only what is taken can overflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.errors import ExpressionOverflowError
from disarray.kernels.scanning.arithmetic import calculate, finite, magnitude, negative, rounded
from disarray.kernels.scanning.vectors import Vector, both, constant, either, vector_of
from disarray.model.description.format import ColumnType
from disarray.model.expression.canonical_text import canonical_text
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

    from disarray.kernels.scanning.vectors import Mask

_LITERALS = {
    bool: ColumnType.BOOL,
    int: ColumnType.INT64,
    float: ColumnType.FLOAT64,
    str: ColumnType.STRING,
}
_NUMBER_COMPARISONS: Mapping[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQUAL: np.equal,
    Operator.NOT_EQUAL: np.not_equal,
    Operator.LESS: np.less,
    Operator.LESS_EQUAL: np.less_equal,
    Operator.GREATER: np.greater,
    Operator.GREATER_EQUAL: np.greater_equal,
}
_TEXT_COMPARISONS: Mapping[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_EQUAL: pc.greater_equal,
}


class Evaluator:
    """Evaluates expressions over the same readings; what two of them share is computed once."""

    def __init__(self, columns: Callable[[str], Vector]) -> None:
        self._columns = columns
        self._known: dict[Expression, Vector] = {}

    def evaluate(self, expression: Expression) -> Vector:
        """The values, with marks where they left int64; a constant stays one."""
        found = self._known.get(expression)
        if found is None:
            with np.errstate(all="ignore"):
                found = self._known[expression] = self._compute(expression)
        return found

    def _compute(self, expression: Expression) -> Vector:
        match expression:
            case Literal(value):
                return constant(value, _LITERALS[type(value)])
            case ColumnRef(name):
                return self._columns(name)
            case Negate(operand):
                return negative(self.evaluate(operand))
            case Not(operand):
                part = self.evaluate(operand)
                return Vector(~part.values, part.valid, part.overflow)
            case IsNull(operand, negated):
                return _is_null(self.evaluate(operand), negated=negated)
            case Binary(operator, left, right):
                return _binary(operator, self.evaluate(left), self.evaluate(right))
            case Call(function, arguments):
                return _call(function, [self.evaluate(argument) for argument in arguments])
            case Case(branches, otherwise):
                values = [self.evaluate(value) for _, value in branches]
                rest = self.evaluate(otherwise) if otherwise is not None else _nothing_like(values[0])
                conditions = [self.evaluate(condition) for condition, _ in branches]
                return _case(conditions, _alike([*values, rest]))
            case _:
                assert_never(expression)


def evaluate(expression: Expression, table: pa.Table) -> pa.Array[Any]:
    """The value of an expression for each row of a table; timestamps come as microseconds."""
    vector = Evaluator(lambda name: vector_of(table.column(name))).evaluate(expression)
    if vector.overflow is not None and vector.overflow.any():
        raise ExpressionOverflowError(
            f"{canonical_text(expression)} leaves int64; nothing was changed. "
            "Write one of its numbers as float64, such as 1.0 for 1"
        )
    rows = table.num_rows
    absent = None if vector.valid is None else ~np.broadcast_to(vector.valid, rows)
    if vector.is_text:
        texts = vector.values if isinstance(vector.values, pa.Array) else pa.repeat(vector.values, rows)
        return texts if absent is None else pc.if_else(pa.array(absent), None, texts)
    return pa.array(np.broadcast_to(vector.values, rows), mask=absent)


def _is_null(part: Vector, *, negated: bool) -> Vector:
    if part.valid is None:
        return Vector(np.asarray(negated), None, part.overflow)
    return Vector(part.valid if negated else ~part.valid, None, part.overflow)


def _binary(operator: Operator, left: Vector, right: Vector) -> Vector:
    if operator in ARITHMETIC:
        return calculate(operator, left, right)
    overflow = either(left.overflow, right.overflow)
    if operator is Operator.AND or operator is Operator.OR:
        return _logic(operator, left, right, overflow)
    valid = both(left.valid, right.valid)
    if left.is_text:
        compared = _TEXT_COMPARISONS[operator](left.values, right.values)
        if isinstance(compared, pa.Scalar):
            return Vector(np.asarray(compared.as_py()), valid, overflow)
        return Vector(compared.fill_null(False).to_numpy(zero_copy_only=False), valid, overflow)
    left, right = _alike([left, right])
    return Vector(np.asarray(_NUMBER_COMPARISONS[operator](left.values, right.values)), valid, overflow)


def _logic(operator: Operator, left: Vector, right: Vector, overflow: Mask | None) -> Vector:
    """Three values: `false and NULL` is false, `true or NULL` is true."""
    decided = operator is Operator.OR
    if left.valid is None and right.valid is None:
        joined = left.values | right.values if decided else left.values & right.values
        return Vector(np.asarray(joined), None, overflow)
    settles = [part.values == decided for part in (left, right)]
    known = [
        where if part.valid is None else where & part.valid
        for where, part in zip(settles, (left, right), strict=True)
    ]
    settled = known[0] | known[1]
    all_there = both(left.valid, right.valid)
    assert all_there is not None
    return Vector(np.asarray(settled if decided else ~settled), np.asarray(settled | all_there), overflow)


def _call(function: Function, arguments: Sequence[Vector]) -> Vector:
    match function:
        case Function.COALESCE:
            return _coalesce(_alike(arguments))
        case Function.LEAST | Function.GREATEST:
            choose = np.minimum if function is Function.LEAST else np.maximum
            result, *others = _alike(arguments)
            for other in others:
                result = _extreme(choose, result, other)
            return result
        case Function.ABS:
            return magnitude(arguments[0])
        case Function.FLOOR | Function.CEIL:
            return rounded(arguments[0], np.floor if function is Function.FLOOR else np.ceil)
        case Function.SQRT:
            return finite(np.sqrt(arguments[0].values), arguments[0].valid, arguments[0].overflow)
        case _:
            assert_never(function)


def _extreme(choose: Callable[[Any, Any], Any], left: Vector, right: Vector) -> Vector:
    overflow = either(left.overflow, right.overflow)
    chosen = choose(left.values, right.values)
    if left.valid is None and right.valid is None:
        return Vector(np.asarray(chosen), None, overflow)
    if left.valid is not None:
        chosen = np.where(left.valid, chosen, right.values)
    if right.valid is not None:
        chosen = np.where(right.valid, chosen, left.values)
    valid = None if left.valid is None or right.valid is None else left.valid | right.valid
    return Vector(chosen, valid, overflow)


def _coalesce(parts: Sequence[Vector]) -> Vector:
    *earlier, result = parts
    for part in reversed(earlier):
        if part.valid is None:
            result = part
            continue
        overflow = _choose_mask(part.valid, None, result.overflow)
        result = Vector(
            _choose(part.valid, part.values, result.values),
            None if result.valid is None else part.valid | result.valid,
            either(part.overflow, overflow),
        )
    return result


def _case(conditions: Sequence[Vector], values: Sequence[Vector]) -> Vector:
    *chosen, result = values
    for condition, value in zip(reversed(conditions), reversed(chosen), strict=True):
        taken = condition.values if condition.valid is None else condition.values & condition.valid
        valid = None
        if value.valid is not None or result.valid is not None:
            there = True if value.valid is None else value.valid
            valid = np.where(taken, there, True if result.valid is None else result.valid)
        overflow = _choose_mask(taken, value.overflow, result.overflow)
        result = Vector(
            _choose(taken, value.values, result.values), valid, either(condition.overflow, overflow)
        )
    return result


def _choose(where: Mask, first: Any, second: Any) -> Any:
    if isinstance(first, pa.Array | pa.Scalar):
        if where.ndim == 0:
            return first if where else second
        return pc.if_else(pa.array(where), first, second)
    return np.where(where, first, second)


def _choose_mask(where: Mask, first: Mask | None, second: Mask | None) -> Mask | None:
    if first is None and second is None:
        return None
    return np.where(where, False if first is None else first, False if second is None else second)


def _nothing_like(vector: Vector) -> Vector:
    if vector.is_text:
        return Vector(pa.scalar("", pa.string()), np.asarray(False))
    return Vector(np.zeros((), dtype=vector.values.dtype), np.asarray(False))


def _alike(parts: Sequence[Vector]) -> list[Vector]:
    """Whole numbers beside floats become floats."""
    if not any(part.is_float for part in parts):
        return list(parts)
    return [
        part if part.is_float else Vector(part.values.astype(np.float64), part.valid, part.overflow)
        for part in parts
    ]
