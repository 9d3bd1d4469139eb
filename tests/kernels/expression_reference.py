"""Expressions evaluated row by row in plain Python, and random trees and rows to compare with."""

from __future__ import annotations

import math
import operator as operators
from typing import TYPE_CHECKING

import pyarrow as pa

from disarray.model.description.format import ColumnType
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
from disarray.model.expression.type_check import type_of

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

Value = bool | int | float | str | None

COLUMNS = {
    "i": ColumnType.INT64,
    "j": ColumnType.INT64,
    "x": ColumnType.FLOAT64,
    "y": ColumnType.FLOAT64,
    "b": ColumnType.BOOL,
    "s": ColumnType.STRING,
    "t": ColumnType.TIMESTAMP,
}
ARROW = {
    ColumnType.INT64: pa.int64(),
    ColumnType.FLOAT64: pa.float64(),
    ColumnType.BOOL: pa.bool_(),
    ColumnType.STRING: pa.string(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}
NUMBERS = (ColumnType.INT64, ColumnType.FLOAT64)
FLOATS = [0.0, 0.1, 1.0, -1.5, 2.5, -0.5, 1e16, -3e15, 1e300, -1e300, 1e-310, 5e-324, 1.7e308, 12345.678]
WHOLES = [0, 1, -1, 2, 7, -3, 10**6, 2**53 + 1, -(2**40)]
EXTREME_WHOLES = [2**63 - 1, -(2**63), 2**62, 3037000500]
TEXTS = ["", "a", "B", "ä", "a'b", "C\\n", "${x}", "z€", "𝄞", "line\nbreak"]
INSTANTS = [0, 1, -1, 1_700_000_000_000_000, 951_782_400_000_000]


class IntegerOverflowError(Exception):
    """A whole number left int64 where its value is used."""


def evaluate_row(expression: Expression, row: Mapping[str, Value]) -> Value:
    match expression:
        case Literal(value):
            return value
        case ColumnRef(name):
            return row[name]
        case Negate(operand):
            inner = evaluate_row(operand, row)
            return None if inner is None else _checked(-inner)  # type: ignore[operator]
        case Not(operand):
            inner = evaluate_row(operand, row)
            return None if inner is None else not inner
        case IsNull(operand, negated):
            return (evaluate_row(operand, row) is None) != negated
        case Binary(operator, left, right):
            return _binary(operator, evaluate_row(left, row), evaluate_row(right, row))
        case Call(Function.COALESCE, arguments):
            found = next((v for a in arguments if (v := evaluate_row(a, row)) is not None), None)
            return _as_float(found, arguments)
        case Call(function, arguments):
            return _call(function, [_as_float(evaluate_row(a, row), arguments) for a in arguments])
        case Case(branches, otherwise):
            values = [then for _, then in branches] + ([otherwise] if otherwise else [])
            for condition, then in branches:
                if evaluate_row(condition, row):
                    return _as_float(evaluate_row(then, row), values)
            return None if otherwise is None else _as_float(evaluate_row(otherwise, row), values)


def _as_float(value: Value, parts: object) -> Value:
    assert isinstance(parts, list | tuple)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and any(type_of(part, COLUMNS) is ColumnType.FLOAT64 for part in parts):
        return float(value)  # type: ignore[arg-type]
    return value


def _checked(number: int | float) -> int | float | None:  # noqa: PYI041
    if isinstance(number, float):
        return number + 0.0 if math.isfinite(number) else None
    if not -(2**63) <= number < 2**63:
        raise IntegerOverflowError
    return number


def _binary(operator: Operator, left: Value, right: Value) -> Value:
    if operator is Operator.AND:
        return False if left is False or right is False else None if left is None or right is None else True
    if operator is Operator.OR:
        return True if left is True or right is True else None if left is None or right is None else False
    if left is None or right is None:
        return None
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    if operator is Operator.DIVIDE:
        return None if right == 0 else _checked(float(left) / float(right))
    symbol = {
        "+": operators.add,
        "-": operators.sub,
        "*": operators.mul,
        "=": operators.eq,
        "<>": operators.ne,
        "<": operators.lt,
        "<=": operators.le,
        ">": operators.gt,
        ">=": operators.ge,
    }[operator.value]
    if isinstance(left, str) and isinstance(right, str):
        return bool(symbol(left.encode(), right.encode()))
    result = symbol(left, right)
    return _checked(result) if operator in ARITHMETIC else bool(result)


def _call(function: Function, values: list[Value]) -> Value:
    present = [value for value in values if value is not None]
    if not present:
        return None
    match function:
        case Function.LEAST:
            return min(present)
        case Function.GREATEST:
            return max(present)
        case Function.ABS:
            return _checked(abs(present[0]))  # type: ignore[arg-type]
        case Function.FLOOR:
            return float(math.floor(float(present[0]))) + 0.0
        case Function.CEIL:
            return float(math.ceil(float(present[0]))) + 0.0
        case _:
            number = float(present[0])
            return None if number < 0 else math.sqrt(number)


def random_expression(source: random.Random, kind: ColumnType, depth: int) -> Expression:
    """A tree of this type; without depth, a column or a literal."""

    def inner(wanted: ColumnType) -> Expression:
        return random_expression(source, wanted, depth - 1)

    if depth <= 0 or source.random() < 0.1:
        return _leaf(source, kind)
    shapes = ["case", "coalesce"]
    if kind is ColumnType.BOOL:
        shapes = ["compare", "compare", "logic", "logic", "not", "null", "case"]
    if kind in NUMBERS:
        shapes += ["arithmetic"] * 5 + ["negate", "abs", "extreme"]
    if kind is ColumnType.FLOAT64:
        shapes += ["round", "sqrt"]
    shape = source.choice(shapes)
    mixed = kind if kind is not ColumnType.FLOAT64 else source.choice(NUMBERS)
    if shape == "case":
        branches = tuple((inner(ColumnType.BOOL), inner(kind)) for _ in range(source.randint(1, 2)))
        return Case(branches, source.choice([None, inner(mixed)]))
    if shape == "coalesce":
        return Call(Function.COALESCE, (inner(kind), inner(mixed), inner(mixed))[: source.randint(2, 3)])
    if shape == "compare":
        compared = source.choice([*ColumnType, ColumnType.FLOAT64])
        signs = ["=", "<>"] if compared is ColumnType.BOOL else ["=", "<>", "<", "<=", ">", ">="]
        other = compared if compared is not ColumnType.FLOAT64 else source.choice(NUMBERS)
        return Binary(Operator(source.choice(signs)), inner(compared), inner(other))
    if shape == "logic":
        return Binary(Operator(source.choice(["and", "or"])), inner(kind), inner(kind))
    if shape == "not":
        return Not(inner(kind))
    if shape == "null":
        return IsNull(inner(source.choice(list(ColumnType))), source.random() < 0.5)
    if shape == "arithmetic":
        signs = ["+", "-", "*", "/"] if kind is ColumnType.FLOAT64 else ["+", "-", "*"]
        sign = Operator(source.choice(signs))
        return Binary(sign, inner(kind), inner(mixed))
    if shape == "negate":
        return Negate(inner(kind))
    if shape == "abs":
        return Call(Function.ABS, (inner(kind),))
    if shape == "extreme":
        function = source.choice([Function.LEAST, Function.GREATEST])
        return Call(function, (inner(kind), inner(mixed)))
    function = Function.SQRT if shape == "sqrt" else source.choice([Function.FLOOR, Function.CEIL])
    return Call(function, (inner(source.choice(NUMBERS)),))


def _leaf(source: random.Random, kind: ColumnType) -> Expression:
    names = [name for name, type_ in COLUMNS.items() if type_ is kind]
    if kind is ColumnType.TIMESTAMP or source.random() < 0.7:
        return ColumnRef(source.choice(names))
    match kind:
        case ColumnType.BOOL:
            return Literal(source.random() < 0.5)
        case ColumnType.STRING:
            return Literal(source.choice(TEXTS))
        case ColumnType.INT64:
            return Literal(abs(source.choice(WHOLES)))
        case _:
            return Literal(abs(source.choice(FLOATS)))


def random_rows(source: random.Random, count: int, *, extreme: bool = False) -> list[dict[str, Value]]:
    """Rows with every awkward value; `extreme` whole numbers overflow in most expressions."""
    wholes = WHOLES + EXTREME_WHOLES if extreme else WHOLES

    def one(kind: ColumnType) -> Value:
        if source.random() < 0.2:
            return None
        match kind:
            case ColumnType.INT64:
                return source.choice([*wholes, source.randint(-100, 100)])
            case ColumnType.FLOAT64:
                return source.choice([*FLOATS, source.uniform(-1000, 1000)])
            case ColumnType.BOOL:
                return source.random() < 0.5
            case ColumnType.STRING:
                return source.choice(TEXTS)
            case ColumnType.TIMESTAMP:
                return source.choice(INSTANTS)

    return [{name: one(kind) for name, kind in COLUMNS.items()} for _ in range(count)]


def table_of(rows: list[dict[str, Value]]) -> pa.Table:
    return pa.table(
        {
            name: pa.array([row[name] for row in rows], pa.int64()).cast(ARROW[kind])
            if kind is ColumnType.TIMESTAMP
            else pa.array([row[name] for row in rows], ARROW[kind])
            for name, kind in COLUMNS.items()
        }
    )


def bits(value: object) -> object:
    """Equal only where every bit and the type are: 1, 1.0, True, 0.0 and -0.0 all differ."""
    return value.hex() if isinstance(value, float) else (type(value).__name__, value)
