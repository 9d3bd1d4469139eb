"""Expressions over columns as one frozen tree: what the parser makes and every rendering starts from.

The language is small on purpose: what engines compute differently (exp, pow, ln, round, %) is not in it.
`x / 0` is NULL, so are the square root of a negative number and any float result that is not finite; `/` gives
float64 and `0.1` is a float64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

KEYWORDS = frozenset(
    {"and", "or", "not", "case", "when", "then", "else", "end", "is", "null", "true", "false"}
)


class Operator(StrEnum):
    """What stands between two operands."""

    OR = "or"
    AND = "and"
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"


class Function(StrEnum):
    """What can be called."""

    ABS = "abs"
    COALESCE = "coalesce"
    LEAST = "least"
    GREATEST = "greatest"
    FLOOR = "floor"
    CEIL = "ceil"
    SQRT = "sqrt"


COMPARISONS = frozenset(
    {
        Operator.EQUAL,
        Operator.NOT_EQUAL,
        Operator.LESS,
        Operator.LESS_EQUAL,
        Operator.GREATER,
        Operator.GREATER_EQUAL,
    }
)
ARITHMETIC = frozenset({Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY, Operator.DIVIDE})
VARIADIC = frozenset({Function.COALESCE, Function.LEAST, Function.GREATEST})


@dataclass(frozen=True, slots=True)
class Literal:
    """A number without sign, a text or a truth value; the Python type is the column type."""

    value: bool | int | float | str
    position: int = field(default=0, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and true are three literals, though Python calls them equal.
        return (
            isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """The value of a column in this reading."""

    name: str
    position: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negate:
    """Minus."""

    operand: Expression
    position: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """Logical not; NULL stays NULL."""

    operand: Expression
    position: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether there is no value."""

    operand: Expression
    negated: bool = False
    position: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands and what joins them."""

    operator: Operator
    left: Expression
    right: Expression
    position: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of its arguments; least and greatest pass over NULL."""

    function: Function
    arguments: tuple[Expression, ...]
    position: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Case:
    """The value beside the first condition that is true; without `otherwise` NULL."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None
    position: int = field(default=0, compare=False, repr=False)


Expression = Literal | ColumnRef | Negate | Not | IsNull | Binary | Call | Case


def children(expression: Expression) -> tuple[Expression, ...]:
    """The operands, left to right."""
    match expression:
        case Negate(operand) | Not(operand) | IsNull(operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case Case(branches, otherwise):
            parts = tuple(part for branch in branches for part in branch)
            return parts if otherwise is None else (*parts, otherwise)
        case _:
            return ()


def columns_in(expression: Expression) -> frozenset[str]:
    """Every column that the expression reads."""
    own = {expression.name} if isinstance(expression, ColumnRef) else set()
    return frozenset(own).union(*map(columns_in, children(expression)))
