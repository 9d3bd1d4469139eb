"""Reading the columns of a description or a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.model.description.format import (
    Alternative,
    Column,
    ColumnType,
    LayoutKind,
    Nonfinite,
    Origin,
    Source,
)
from disarray.model.description.format_times import layouts, read_source
from disarray.model.description.spec_table import near_miss
from disarray.model.description.spec_values import any_text, boolean, choice, factor, name, number, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.model.description.format import PreambleField
    from disarray.model.description.spec_table import Table

_ONLY_FOR = {
    "scale": ColumnType.FLOAT64,
    "offset": ColumnType.FLOAT64,
    "or": ColumnType.FLOAT64,
    "nonfinite": ColumnType.FLOAT64,
    "layouts": ColumnType.TIMESTAMP,
    "dimension": ColumnType.STRING,
}


def read_columns(table: Table, *, fields: Sequence[PreambleField]) -> tuple[Column, ...]:
    """All columns under the key `columns`, in the order in which they are written."""
    return tuple(
        _read_column(own_name, column, fields)
        for own_name, column in table.tables("columns", "column", name=name, shorthand="type")
    )


def _read_column(own_name: str, table: Table, fields: Sequence[PreambleField]) -> Column:
    type_ = table.required("type", choice(ColumnType), ColumnType.STRING)
    field = table.optional("preamble", text, "")
    source = Source(names=(field,)) if field else read_source(table, default=own_name)
    if field:
        _check_preamble_column(table, field, fields)
    for key, needed in _ONLY_FOR.items():
        if key in table.values and type_ is not needed and not (key == "or" and _plain_alternatives(table)):
            table.refuse(key, f"has a meaning for type {needed} alone; this column is of type {type_}")
    if type_ is ColumnType.TIMESTAMP and "layouts" not in table.values:
        table.refuse("layouts", "expected one or more layouts, found nothing; a timestamp needs them")
    stamps = table.optional("layouts", layouts, ())
    if any(layout.kind is LayoutKind.RELATIVE for layout in stamps):
        table.refuse("layouts", "expected a date or an epoch: only the event time can be relative")
    column = Column(
        name=own_name,
        source=source,
        type=type_,
        unit=table.optional("unit", any_text, ""),
        scale=table.optional("scale", factor, 1.0),
        offset=table.optional("offset", number(), 0.0),
        nullable=table.optional("nullable", boolean, True),
        required=table.optional("required", boolean, True),
        nonfinite=table.optional("nonfinite", choice(Nonfinite), Nonfinite.REJECT),
        layouts=stamps,
        origin=Origin.PREAMBLE if field else Origin.CELL,
        alternatives=tuple(_read_alternative(other) for other in table.array("or", "alternative")),
        is_dimension=table.optional("dimension", boolean, False),
    )
    table.close()
    return column


def _read_alternative(table: Table) -> Alternative:
    source = read_source(table)
    if not source.names and not source.pattern:
        table.refuse("from", "expected another header, found nothing; the key is required")
    alternative = Alternative(
        source=source,
        scale=table.optional("scale", factor, 1.0),
        offset=table.optional("offset", number(), 0.0),
    )
    table.close()
    return alternative


def _plain_alternatives(table: Table) -> bool:
    others = table.values["or"]
    return isinstance(others, list) and not any(
        isinstance(other, dict) and {"scale", "offset"} & other.keys() for other in others
    )


def _check_preamble_column(table: Table, field: str, fields: Sequence[PreambleField]) -> None:
    names = [each.name for each in fields]
    if field not in names:
        table.refuse("preamble", f"there is no preamble field '{field}'; {near_miss(field, names)}")
    for key in ("from", "match", "or"):
        table.optional(key, lambda value: value, None)
        if key in table.values:
            table.refuse(key, "has no meaning beside 'preamble': the value stands before the header")
