"""From text to the expression tree; every error says at which character what was expected."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from difflib import get_close_matches

from disarray.errors import ExpressionError
from disarray.model.expression.tree import (
    COMPARISONS,
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
    children,
)

MAX_LENGTH = 4_000
# Walks over a tree recurse; deeper ones are accidents or attacks and must not reach Python's own limit.
MAX_NESTING = 40
MAX_DEPTH = 100

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
      | (?P<integer>[0-9]+)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<string>'(?:[^']|'')*')
      | (?P<symbol><>|!=|<=|>=|==|[-+*/()<>=,])
    )""",
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def parse_expression(text: str) -> Expression:
    """The tree of an expression; an error says at which character what was expected."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the expression has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    return _Parser(_tokens(text)).whole()


def _tokens(text: str) -> list[_Token]:
    tokens = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            rest = text[position:].lstrip()
            raise ExpressionError(
                f"{rest[:10]!r} at character {end - len(rest)} is not understood", position=position
            )
        kind = match.lastgroup
        assert kind is not None
        tokens.append(_Token(kind, match[kind], match.start(kind)))
        position = match.end()
    tokens.append(_Token("end", "", end))
    return tokens


class _Parser:
    """Recursive descent over the tokens, one method per level of precedence."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.index = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.index]

    def whole(self) -> Expression:
        expression = self.disjunction()
        if self.token.kind != "end":
            raise self.expected("the end of the expression or an operator")
        if _depth(expression) > MAX_DEPTH:
            raise ExpressionError(
                f"the expression is deeper than {MAX_DEPTH} levels; split it into columns or metrics"
            )
        return expression

    def disjunction(self) -> Expression:
        self.depth += 1
        if self.depth > MAX_NESTING:
            message = f"the parentheses are nested deeper than {MAX_NESTING} levels"
            raise ExpressionError(message, position=self.token.position)
        left = self.conjunction()
        while (token := self.take("or")) is not None:
            left = Binary(Operator.OR, left, self.conjunction(), token.position)
        self.depth -= 1
        return left

    def conjunction(self) -> Expression:
        left = self.negation()
        while (token := self.take("and")) is not None:
            left = Binary(Operator.AND, left, self.negation(), token.position)
        return left

    def negation(self) -> Expression:
        operators = []
        while (token := self.take("not")) is not None:
            operators.append(token)
        operand = self.comparison()
        for token in reversed(operators):
            operand = Not(operand, token.position)
        return operand

    def comparison(self) -> Expression:
        left = self.sum()
        if (token := self.take("is")) is not None:
            negated = self.take("not") is not None
            self.require("null")
            return IsNull(left, negated, token.position)
        if self.token.kind == "symbol" and self.token.text in ("==", "!="):
            wanted = "=" if self.token.text == "==" else "<>"
            raise ExpressionError(
                f"{self.token.text!r} at character {self.token.position}: write {wanted!r}",
                position=self.token.position,
            )
        token = self.take(*COMPARISONS)
        return left if token is None else Binary(Operator(token.text), left, self.sum(), token.position)

    def sum(self) -> Expression:
        left = self.product()
        while (token := self.take("+", "-")) is not None:
            left = Binary(Operator(token.text), left, self.product(), token.position)
        return left

    def product(self) -> Expression:
        left = self.unary()
        while (token := self.take("*", "/")) is not None:
            left = Binary(Operator(token.text), left, self.unary(), token.position)
        return left

    def unary(self) -> Expression:
        signs = []
        while (token := self.take("-")) is not None:
            signs.append(token)
        operand = self.primary()
        for token in reversed(signs):
            operand = Negate(operand, token.position)
        return operand

    def primary(self) -> Expression:
        token = self.token
        if token.kind in ("integer", "float", "string"):
            self.index += 1
            return _literal(token)
        if self.take("(") is not None:
            inside = self.disjunction()
            self.require(")")
            return inside
        if token.kind != "word":
            raise self.expected("a column, a number, a text or '('")
        if token.text in ("true", "false"):
            self.index += 1
            return Literal(token.text == "true", token.position)
        if token.text == "case":
            return self.case()
        if token.text in KEYWORDS:
            raise self.expected("a column, a number, a text or '('")
        self.index += 1
        return self.call(token) if self.token.text == "(" else ColumnRef(token.text, token.position)

    def call(self, name: _Token) -> Expression:
        if name.text not in {function.value for function in Function}:
            near = get_close_matches(name.text, [function.value for function in Function], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(Function)}"
            raise ExpressionError(f"there is no function {name.text!r}{hint}", position=name.position)
        function = Function(name.text)
        self.require("(")
        arguments = [self.disjunction()]
        while self.take(",") is not None:
            arguments.append(self.disjunction())
        self.require(")")
        if function in VARIADIC and len(arguments) < 2:
            raise ExpressionError(f"{function} needs at least two arguments", position=name.position)
        if function not in VARIADIC and len(arguments) != 1:
            raise ExpressionError(
                f"{function} takes one argument, not {len(arguments)}", position=name.position
            )
        return Call(function, tuple(arguments), name.position)

    def case(self) -> Expression:
        start = self.require("case")
        branches = []
        while self.take("when") is not None:
            condition = self.disjunction()
            self.require("then")
            branches.append((condition, self.disjunction()))
        if not branches:
            raise self.expected("'when'")
        otherwise = self.disjunction() if self.take("else") is not None else None
        self.require("end")
        return Case(tuple(branches), otherwise, start.position)

    def take(self, *texts: str) -> _Token | None:
        token = self.token
        if token.kind not in ("word", "symbol") or token.text not in texts:
            return None
        self.index += 1
        return token

    def require(self, text: str) -> _Token:
        token = self.take(text)
        if token is None:
            raise self.expected(repr(text))
        return token

    def expected(self, what: str) -> ExpressionError:
        found = repr(self.token.text) if self.token.kind != "end" else "the end"
        return ExpressionError(
            f"expected {what} at character {self.token.position}, found {found}", position=self.token.position
        )


def _literal(token: _Token) -> Literal:
    if token.kind == "string":
        return Literal(token.text[1:-1].replace("''", "'"), token.position)
    if token.kind == "float":
        number = float(token.text)
        if not math.isfinite(number):
            raise ExpressionError(f"{token.text} is too large for float64", position=token.position)
        return Literal(number, token.position)
    if len(token.text) > 19 or int(token.text) > 2**63 - 1:
        raise ExpressionError(f"{token.text[:30]} is too large for int64", position=token.position)
    return Literal(int(token.text), token.position)


def _depth(expression: Expression) -> int:
    """How deep the tree is, without recursion: a long chain of operators is deep without parentheses."""
    deepest = 0
    waiting: list[tuple[Expression, int]] = [(expression, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting.extend((child, depth + 1) for child in children(node))
    return deepest
