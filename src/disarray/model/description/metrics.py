"""Metrics: cumulative values over a series' whole history, as declared."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from disarray.model.description.format import ColumnType
from disarray.model.description.spec_expressions import column_name, condition, expression
from disarray.model.description.spec_values import any_text, choice, duration, several
from disarray.model.expression.type_check import NUMERIC, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.description.spec_table import Table
    from disarray.model.expression.tree import Expression


# Between points that add up to less, an integral counts nothing: PostgreSQL refuses a product that underflows, and
# what carries values from segment to segment must have the bits of what folds within one.
SMALLEST_HEIGHT = 1e-280


class MetricKind(StrEnum):
    """What a metric adds up at each point."""

    SUM = "sum"
    COUNT = "count"
    INTEGRAL = "integral"
    INCREASE = "increase"
    MIN = "min"
    MAX = "max"

    @property
    def is_extreme(self) -> bool:
        """Whether it keeps the least or the greatest value; the others add up."""
        match self:
            case MetricKind.MIN | MetricKind.MAX:
                return True
            case MetricKind.SUM | MetricKind.COUNT | MetricKind.INTEGRAL | MetricKind.INCREASE:
                return False
            case _:
                assert_never(self)


class IntegralMethod(StrEnum):
    """What holds between two points: the straight line, or the earlier value."""

    TRAPEZOID = "trapezoid"
    PREVIOUS = "previous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric. A reading is a point where `where` is true and `input` is not NULL."""

    name: str
    kind: MetricKind
    input: Expression | None  # None only for count: every reading is a point
    where: Expression | None = None
    method: IntegralMethod = IntegralMethod.TRAPEZOID
    max_gap_us: int | None = None
    break_on: tuple[str, ...] = ()
    reset_on: tuple[str, ...] = ()
    type: ColumnType = ColumnType.FLOAT64
    unit: str = ""


def read_metric(own_name: str, table: Table, columns: Mapping[str, ColumnType]) -> Metric:
    """A metric as declared; faults are collected in the table's problems."""
    kind = table.required("kind", choice(MetricKind), MetricKind.COUNT)
    value = table.optional("input", expression(columns), None)
    where = table.optional("where", condition(columns), None)
    max_gap = table.optional("max_gap", duration(at_least=1), None)
    method = table.optional("method", choice(IntegralMethod), IntegralMethod.TRAPEZOID)
    break_on = table.optional("break_on", several(column_name(columns)), ())
    reset_on = table.optional("reset_on", several(column_name(columns)), ())
    unit = table.optional("unit", any_text, "")
    if "input" not in table.values and kind is not MetricKind.COUNT:
        table.refuse("input", f"expected an expression, found nothing; a metric of kind {kind} needs one")
    if kind is MetricKind.INTEGRAL and "max_gap" not in table.values:
        table.refuse("max_gap", "expected a duration, found nothing; an integral must not bridge gaps")
    if kind is not MetricKind.INTEGRAL:
        for key in ("max_gap", "method", "break_on"):
            if key in table.values:
                table.refuse(key, f"has a meaning for kind 'integral' alone; this metric is of kind '{kind}'")
    table.close()
    return Metric(
        name=own_name,
        kind=kind,
        input=value,
        where=where,
        method=method,
        max_gap_us=max_gap,
        break_on=break_on,
        reset_on=reset_on,
        type=_type(kind, value, table, columns),
        unit=unit,
    )


def _type(
    kind: MetricKind, value: Expression | None, table: Table, columns: Mapping[str, ColumnType]
) -> ColumnType:
    if kind is MetricKind.COUNT or value is None:
        return ColumnType.INT64
    found = type_of(value, columns)
    if found not in NUMERIC:
        table.refuse("input", f"expected a number, found an expression of type {found}")
    return ColumnType.FLOAT64 if kind is MetricKind.INTEGRAL else found
