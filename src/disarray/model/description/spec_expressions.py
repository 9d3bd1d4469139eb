"""Readers for keys that hold expressions or name columns: both are checked against the dataset's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.errors import ExpressionError
from disarray.model.description.format import ColumnType
from disarray.model.description.spec_table import MisfitError, near_miss
from disarray.model.expression.parser import parse_expression
from disarray.model.expression.type_check import type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from disarray.model.expression.tree import Expression


def expression(columns: Mapping[str, ColumnType]) -> Callable[[object], Expression]:
    """An expression that the columns can answer."""

    def read(value: object) -> Expression:
        if not isinstance(value, str):
            raise MisfitError("an expression over columns")
        try:
            tree = parse_expression(value)
            type_of(tree, columns)
        except ExpressionError as error:
            raise MisfitError("an expression over columns", hint=str(error)) from None
        return tree

    return read


def condition(columns: Mapping[str, ColumnType]) -> Callable[[object], Expression]:
    """An expression that is true or false."""

    def read(value: object) -> Expression:
        tree = expression(columns)(value)
        if type_of(tree, columns) is not ColumnType.BOOL:
            raise MisfitError("a condition", hint=f"this expression is of type {type_of(tree, columns)}")
        return tree

    return read


def column_name(columns: Mapping[str, ColumnType]) -> Callable[[object], str]:
    """The name of a column of the dataset."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise MisfitError("the name of a column")
        if value not in columns:
            raise MisfitError("the name of a column", hint=near_miss(value, list(columns)))
        return value

    return read
