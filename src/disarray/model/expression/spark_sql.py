"""Expressions as Spark SQL: the same values bit for bit, whatever the session says about ANSI mode.

Whole numbers that overflow are NULL here and an error in the kernels: such numbers were never stored. A float that is
not finite is NULL in the language; arithmetic carries it on to where that shows, and there it is made NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, assert_never

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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_WHOLE_ARITHMETIC = {
    Operator.ADD: "try_add",
    Operator.SUBTRACT: "try_subtract",
    Operator.MULTIPLY: "try_multiply",
}
# Every float64 from here on is whole already, and Spark's floor would squeeze it into a bigint.
_ALL_WHOLE = "4503599627370496.0D"


def spark_sql(expression: Expression, columns: Mapping[str, ColumnType]) -> str:
    """The text of an expression over columns of these types; `columns` are named as in the table."""
    renderer = _Renderer(columns, (f"v{number}" for number in count()))
    return renderer.settled(renderer.render(expression))


def quoted_name(name: str) -> str:
    """An identifier that Spark takes as it is."""
    return "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A string literal that Spark takes as it is: no escapes, no `${...}` substitution."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"


@dataclass(frozen=True, slots=True)
class _Part:
    sql: str
    type: ColumnType
    may_be_infinite: bool = False


@dataclass(frozen=True, slots=True)
class _Renderer:
    columns: Mapping[str, ColumnType]
    variables: Iterator[str]

    def render(self, expression: Expression) -> _Part:
        match expression:
            case Literal(value):
                return _literal(value)
            case ColumnRef(name):
                return _Part(quoted_name(name), self.columns[name])
            case Negate(operand):
                return self.negative(self.render(operand))
            case Not(operand):
                return _Part(f"(not {self.render(operand).sql})", ColumnType.BOOL)
            case IsNull(operand, negated):
                part = self.settled(self.render(operand))
                return _Part(f"({part} is {'not ' if negated else ''}null)", ColumnType.BOOL)
            case Binary(operator, left, right):
                return self.binary(operator, self.render(left), self.render(right))
            case Call(function, arguments):
                return self.call(function, [self.render(argument) for argument in arguments])
            case Case():
                return self.case(expression)
            case _:
                assert_never(expression)

    def binary(self, operator: Operator, left: _Part, right: _Part) -> _Part:
        if operator in ARITHMETIC:
            return self.arithmetic(operator, left, right)
        if operator not in (Operator.AND, Operator.OR):
            left, right = _alike([left, right])
        return _Part(f"({self.settled(left)} {operator} {self.settled(right)})", ColumnType.BOOL)

    def arithmetic(self, operator: Operator, left: _Part, right: _Part) -> _Part:
        if operator is Operator.DIVIDE:
            # A divisor that is not finite would give 0, where NULL is meant.
            quotient = f"try_divide({_float(left).sql}, {self.settled(_float(right))})"
            return _Part(f"({quotient} + 0.0D)", ColumnType.FLOAT64, may_be_infinite=True)
        left, right = _alike([left, right])
        if left.type is ColumnType.INT64:
            return _Part(f"{_WHOLE_ARITHMETIC[operator]}({left.sql}, {right.sql})", ColumnType.INT64)
        sql = f"{left.sql} {operator} {right.sql}"
        # A product may be -0.0.
        positive = f"(({sql}) + 0.0D)" if operator is Operator.MULTIPLY else f"({sql})"
        return _Part(positive, ColumnType.FLOAT64, may_be_infinite=True)

    def negative(self, part: _Part) -> _Part:
        if part.type is ColumnType.INT64:
            return _Part(f"try_subtract(0L, {part.sql})", ColumnType.INT64)
        return _Part(f"(0.0D - {part.sql})", ColumnType.FLOAT64, part.may_be_infinite)

    def call(self, function: Function, arguments: Sequence[_Part]) -> _Part:
        match function:
            case Function.COALESCE | Function.LEAST | Function.GREATEST:
                parts = _alike(arguments)
                return _Part(f"{function}({', '.join(map(self.settled, parts))})", parts[0].type)
            case Function.ABS:
                return self.magnitude(arguments[0])
            case Function.FLOOR | Function.CEIL:
                return self.rounded(function, arguments[0])
            case Function.SQRT:
                return _Part(f"sqrt({_float(arguments[0]).sql})", ColumnType.FLOAT64, may_be_infinite=True)
            case _:
                assert_never(function)

    def magnitude(self, part: _Part) -> _Part:
        if part.type is ColumnType.FLOAT64:
            return _Part(f"abs({part.sql})", part.type, part.may_be_infinite)
        name = next(self.variables)
        body = f"case when {name} < 0L then try_subtract(0L, {name}) else {name} end"
        return _Part(f"get(transform(array({part.sql}), {name} -> {body}), 0)", part.type)

    def rounded(self, function: Function, part: _Part) -> _Part:
        if part.type is ColumnType.INT64:
            return _float(part)
        name = next(self.variables)
        whole = f"cast({function}({name}) as double)"
        body = f"case when abs({name}) < {_ALL_WHOLE} then {whole} else {name} end"
        return _Part(f"get(transform(array({self.settled(part)}), {name} -> {body}), 0)", ColumnType.FLOAT64)

    def case(self, expression: Case) -> _Part:
        values = [self.render(value) for _, value in expression.branches]
        if expression.otherwise is not None:
            values.append(self.render(expression.otherwise))
        values = _alike(values)
        conditions = [self.render(condition).sql for condition, _ in expression.branches]
        texts = [
            f"when {condition} then {value.sql}" for condition, value in zip(conditions, values, strict=False)
        ]
        if expression.otherwise is not None:
            texts.append(f"else {values[-1].sql}")
        may_be_infinite = any(value.may_be_infinite for value in values)
        return _Part(f"case {' '.join(texts)} end", values[0].type, may_be_infinite)

    def settled(self, part: _Part) -> str:
        """The text with NULL for what is not finite; the lambda names the value, so no text is ever doubled."""
        if not part.may_be_infinite:
            return part.sql
        name = next(self.variables)
        return f"get(filter(array({part.sql}), {name} -> abs({name}) < double('Infinity')), 0)"


def _literal(value: bool | float | str) -> _Part:
    match value:
        case bool():
            return _Part("true" if value else "false", ColumnType.BOOL)
        case int():
            return _Part(f"{value}L", ColumnType.INT64)
        case float():
            return _Part(f"{value!r}D", ColumnType.FLOAT64)
        case str():
            return _Part(quoted_text(value), ColumnType.STRING)


def _float(part: _Part) -> _Part:
    if part.type is ColumnType.FLOAT64:
        return part
    return _Part(f"cast({part.sql} as double)", ColumnType.FLOAT64)


def _alike(parts: Sequence[_Part]) -> list[_Part]:
    if any(part.type is ColumnType.FLOAT64 for part in parts):
        return [_float(part) for part in parts]
    return list(parts)
