"""Reading subject attributes: constants of a subject (a cell's capacity, a work order) used as columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from disarray.model.description.dataset import AttributeValue
from disarray.model.description.format import ColumnType
from disarray.model.description.spec_table import MisfitError
from disarray.model.description.spec_values import name, subject_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.description.spec_table import Table

Attributes = dict[str, dict[str, AttributeValue]]
_TYPES: dict[type, ColumnType] = {
    bool: ColumnType.BOOL,
    int: ColumnType.INT64,
    float: ColumnType.FLOAT64,
    str: ColumnType.STRING,
}


def read_attributes(
    table: Table, columns: Mapping[str, ColumnType]
) -> tuple[Attributes, dict[str, ColumnType]]:
    """Values by subject, and the type of each attribute: one over all subjects, in the order of names."""
    values: Attributes = {}
    types: dict[str, ColumnType] = {}
    for subject, row in table.tables("attributes", "attribute", name=subject_key):
        values[subject] = {}
        for key in row.values:
            value = row.required(key, _value, "")
            if not _is_name(row, key, columns):
                continue
            values[subject][key] = value
            found = _TYPES[type(value)]
            known = types.setdefault(key, found)
            if {known, found} == {ColumnType.INT64, ColumnType.FLOAT64}:
                types[key] = ColumnType.FLOAT64
            elif known is not found:
                row.refuse(key, f"expected {known} as for the other subjects, found {found}")
    return _widened(values, types), dict(sorted(types.items()))


def _value(value: object) -> AttributeValue:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value + 0.0
    raise MisfitError("a text, a finite number, true or false")


def _is_name(row: Table, key: str, columns: Mapping[str, ColumnType]) -> bool:
    try:
        name(key)
    except MisfitError as misfit:
        row.refuse(key, f"expected {misfit.expected}")
        return False
    if key in columns:
        row.refuse(key, f"expected a name of its own, found {key!r}, which is also a column")
        return False
    return True


def _widened(values: Attributes, types: Mapping[str, ColumnType]) -> Attributes:
    """A whole number beside fractions is a fraction too: one type per attribute."""
    return {
        subject: {
            key: float(value) if types[key] is ColumnType.FLOAT64 and isinstance(value, int) else value
            for key, value in row.items()
        }
        for subject, row in values.items()
    }
