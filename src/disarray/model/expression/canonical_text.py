"""The one text of an expression: what hashes, messages and `show` commands use."""

from __future__ import annotations

from disarray.model.expression.tree import (
    COMPARISONS,
    Binary,
    Call,
    Case,
    ColumnRef,
    Expression,
    IsNull,
    Literal,
    Negate,
    Not,
    Operator,
)

_NOT, _COMPARISON, _ADDITION, _UNARY, _PRIMARY = 3, 4, 5, 7, 8
_PRECEDENCE = {
    Operator.OR: 1,
    Operator.AND: 2,
    **dict.fromkeys(COMPARISONS, _COMPARISON),
    Operator.ADD: _ADDITION,
    Operator.SUBTRACT: _ADDITION,
    Operator.MULTIPLY: 6,
    Operator.DIVIDE: 6,
}


def canonical_text(expression: Expression) -> str:
    """The one text of a tree: single blanks, only the parentheses that the order of evaluation needs."""
    match expression:
        case Literal(bool() as value):
            return "true" if value else "false"
        case Literal(str() as value):
            return "'" + value.replace("'", "''") + "'"
        case Literal(value):
            return repr(value)
        case ColumnRef(name):
            return name
        case Negate(operand):
            return "-" + _inside(operand, at_least=_UNARY)
        case Not(operand):
            return "not " + _inside(operand, at_least=_NOT)
        case IsNull(operand, negated):
            return f"{_inside(operand, at_least=_ADDITION)} is {'not ' if negated else ''}null"
        case Binary(operator, left, right):
            own = _PRECEDENCE[operator]
            # Comparisons do not chain; the others bind from the left, and floats are not associative.
            left_text = _inside(left, at_least=own + 1 if operator in COMPARISONS else own)
            return f"{left_text} {operator} {_inside(right, at_least=own + 1)}"
        case Call(function, arguments):
            return f"{function}({', '.join(map(canonical_text, arguments))})"
        case Case(branches, otherwise):
            parts = [f"when {canonical_text(when)} then {canonical_text(then)}" for when, then in branches]
            if otherwise is not None:
                parts.append(f"else {canonical_text(otherwise)}")
            return f"case {' '.join(parts)} end"


def _inside(expression: Expression, *, at_least: int) -> str:
    text = canonical_text(expression)
    return text if _binding(expression) >= at_least else f"({text})"


def _binding(expression: Expression) -> int:
    match expression:
        case Binary(operator):
            return _PRECEDENCE[operator]
        case Not():
            return _NOT
        case IsNull():
            return _COMPARISON
        case Negate():
            return _UNARY
        case _:
            return _PRIMARY
