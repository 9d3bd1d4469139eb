"""The readings of a segment channel after channel, and what expressions see of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.errors import ExpressionOverflowError
from disarray.kernels.scanning.expressions import Evaluator
from disarray.kernels.scanning.value_texts import same_text
from disarray.kernels.scanning.vectors import Vector, constant, flat, vector_of
from disarray.model.description.format import CHANNEL, EVENT_US
from disarray.model.expression.canonical_text import canonical_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.kernels.scanning.vectors import Mask
    from disarray.model.description.dataset import Attribute
    from disarray.model.expression.tree import Expression


@dataclass(frozen=True, slots=True)
class Points:
    """The readings that count for a metric or an aggregate, and their inputs."""

    rows: NDArray[np.int64] | None  # indices in the series; None: every reading
    values: NDArray[Any]  # by point; ones where nothing or a text is counted
    count: int

    def at(self, by_reading: NDArray[Any]) -> NDArray[Any]:
        """Values by reading as values by point."""
        return by_reading if self.rows is None else by_reading[self.rows]

    def vector(self, by_reading: Vector) -> Vector:
        """A column by reading as a column by point."""
        return by_reading if self.rows is None else by_reading.take(self.rows)

    def starts(self, reading_starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first point at or after each of these indices."""
        return reading_starts if self.rows is None else np.searchsorted(self.rows, reading_starts)


class Series:
    """Readings of one segment, each channel in canonical order, channels by UTF-8 bytes."""

    def __init__(self, readings: pa.Table, *, attributes: Sequence[Attribute] = (), label: str = "") -> None:
        self.label = label  # where the readings belong, for messages
        self.rows = readings.num_rows
        self._table = readings
        self._constants = {each.name: constant(each.value, each.type) for each in attributes}
        self._columns: dict[str, Vector] = {}
        self._points: dict[tuple[Expression | None, Expression | None], Points] = {}
        self._evaluator = Evaluator(self.column)
        self._channel_array, self.starts, self.order = _by_channel(readings)
        self.channels: tuple[str, ...] = tuple(self._channel_array.to_pylist())
        self.event_us: NDArray[np.int64] = self.column(EVENT_US).values

    def column(self, name: str) -> Vector:
        """A column or a constant of the subject, in the order of the series."""
        if name in self._constants:
            return self._constants[name]
        if name not in self._columns:
            vector = vector_of(self._table.column(name))
            self._columns[name] = vector if self.order is None else vector.take(self.order)
        return self._columns[name]

    def points(self, value: Expression | None, where: Expression | None) -> Points:
        """The readings where `where` is true and `value` is not NULL."""
        key = (value, where)
        if key not in self._points:
            self._points[key] = self._find_points(value, where)
        return self._points[key]

    def channel_names(self, index: NDArray[np.int64]) -> pa.Array[Any]:
        """The channels by number, as an Arrow column."""
        return self._channel_array.take(pa.array(index))

    def in_canonical_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values by index in the series as values by index in the table."""
        if self.order is None:
            return values
        result = np.empty_like(values)
        result[self.order] = values
        return result

    @property
    def channel_by_reading(self) -> NDArray[np.int64]:
        """The index of each reading's channel in `channels`, in canonical order."""
        return self.in_canonical_order(np.repeat(np.arange(len(self.channels)), np.diff(self.starts)))

    def _find_points(self, value: Expression | None, where: Expression | None) -> Points:
        chosen: Mask | None = None
        if where is not None:
            condition = self._evaluator.evaluate(where)
            self._refuse_overflow(where, condition, None)
            chosen = condition.true_rows(self.rows)
        if value is None:
            return self._points_at(chosen, np.ones((), dtype=np.int64))
        vector = self._evaluator.evaluate(value)
        self._refuse_overflow(value, vector, chosen)
        if vector.valid is not None:
            valid = np.broadcast_to(vector.valid, self.rows)
            chosen = valid if chosen is None else chosen & valid
        return self._points_at(chosen, np.ones((), dtype=np.int64) if vector.is_text else vector.values)

    def _points_at(self, chosen: Mask | None, values: NDArray[Any]) -> Points:
        by_reading = np.broadcast_to(values, self.rows)
        if chosen is None or chosen.all():
            return Points(None, by_reading, self.rows)
        rows = np.flatnonzero(chosen)
        return Points(rows, by_reading[rows], len(rows))

    def _refuse_overflow(self, expression: Expression, vector: Vector, chosen: Mask | None) -> None:
        if vector.overflow is None:
            return
        used = vector.overflow if chosen is None else vector.overflow & chosen
        if np.any(used):
            raise ExpressionOverflowError(
                f"{canonical_text(expression)} leaves int64 in {self.label}; nothing of it was changed. "
                "Write one of its numbers as float64, such as 1.0 for 1, or leave such readings out with 'where'"
            )


def _by_channel(
    readings: pa.Table,
) -> tuple[pa.Array[Any], NDArray[np.int64], NDArray[np.int64] | None]:
    rows = readings.num_rows
    if CHANNEL not in readings.column_names or not rows:
        return same_text("", min(rows, 1)), np.array([0, rows] if rows else [0], dtype=np.int64), None
    encoded = flat(readings.column(CHANNEL)).dictionary_encode()
    names = encoded.dictionary
    if len(names) == 1:
        return names, np.array([0, rows], dtype=np.int64), None
    by_name = pc.sort_indices(names).to_numpy()
    # NumPy sorts 16-bit numbers by radix.
    rank = np.empty(len(names), dtype=np.uint16 if len(names) <= 1 << 16 else np.int32)
    rank[by_name] = np.arange(len(names))
    channel = rank[encoded.indices.to_numpy()]
    starts = np.concatenate([[0], np.cumsum(np.bincount(channel, minlength=len(names)))])
    return names.take(pa.array(by_name)), starts, np.argsort(channel, kind="stable")
