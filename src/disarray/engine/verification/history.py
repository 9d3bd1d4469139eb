"""The readings that count of some neighbouring segments, channel after channel: what everything is recomputed from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.engine.verification.arrow_expressions import evaluate
from disarray.engine.verification.canonical_order import ranks
from disarray.kernels.parsing.columns import ARROW_TYPES
from disarray.model.description.format import CHANNEL, EVENT_US, ColumnType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.model.description.dataset import Dataset
    from disarray.model.expression.tree import Expression


@dataclass(frozen=True, slots=True)
class Points:
    """The rows at which an input has a value, and the values."""

    rows: NDArray[np.int64]
    values: NDArray[Any]


@dataclass(slots=True)
class History:
    """Readings by channel, within a channel in canonical order, with the constant columns of the subject."""

    dataset: Dataset
    table: pa.Table
    event_us: NDArray[np.int64]
    segment_us: NDArray[np.int64]
    channel: NDArray[np.int64]
    channels: pa.Array[Any]  # by number
    _known: dict[tuple[Expression | None, Expression | None], Points] = field(default_factory=dict)
    _ranks: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, readings: pa.Table, dataset: Dataset, subject_key: str) -> History:
        """From readings in canonical order; those without a channel are of one that has no name."""
        if CHANNEL in readings.column_names:
            encoded = readings.column(CHANNEL).combine_chunks().dictionary_encode()
            channel = encoded.indices.to_numpy().astype(np.int64)
            order = np.argsort(channel, kind="stable")
            readings, channel, channels = readings.take(pa.array(order)), channel[order], encoded.dictionary
        else:
            channel = np.zeros(readings.num_rows, dtype=np.int64)
            channels = pa.array([""])
        for each in dataset.attributes_of(subject_key):
            value = each.value
            if each.type is ColumnType.FLOAT64 and isinstance(value, int | float):
                value = float(value) + 0.0
            constant = pa.scalar(value, ARROW_TYPES[each.type])
            readings = readings.append_column(each.name, pa.repeat(constant, readings.num_rows))
        event_us = readings.column(EVENT_US).to_numpy()
        segment_us = event_us - event_us % dataset.segment_length_us
        return cls(dataset, readings.combine_chunks(), event_us, segment_us, channel, channels)

    @property
    def begins_channel(self) -> NDArray[np.bool_]:
        """By row: whether it is the first of its channel."""
        return _begins(self.channel)

    @property
    def begins_segment(self) -> NDArray[np.bool_]:
        """By row: whether it is the first of its channel in its segment."""
        return _begins(self.channel) | _begins(self.segment_us)

    def points(self, value: Expression | None, where: Expression | None) -> Points:
        """Where the input has a value and the condition is true; a count without an input takes 1 for it."""
        found = self._known.get((value, where))
        if found is None:
            found = self._known[value, where] = self._points(value, where)
        return found

    def _points(self, value: Expression | None, where: Expression | None) -> Points:
        rows = self.table.num_rows
        values = pa.repeat(pa.scalar(1, pa.int64()), rows) if value is None else evaluate(value, self.table)
        is_point = values.is_valid()
        if where is not None:
            is_point = pc.and_(is_point, pc.fill_null(evaluate(where, self.table), False))
        kept = np.flatnonzero(is_point.to_numpy(zero_copy_only=False))
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            return Points(kept, np.ones(len(kept), dtype=np.int64))  # only ever counted
        if len(kept) < rows:
            values = values.take(pa.array(kept))
        return Points(kept, values.to_numpy(zero_copy_only=False))

    def changes(self, names: Sequence[str], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """By row but the first: whether one of these columns says something else than in the row before it."""
        found = np.zeros(max(len(rows) - 1, 0), dtype=np.bool_)
        for name in names:
            if name not in self._ranks:
                self._ranks[name] = ranks(self.table.column(name))
            own = self._ranks[name][rows]
            found |= own[1:] != own[:-1]
        return found

    def texts(self, names: Sequence[str], rows: NDArray[np.int64]) -> pa.Array[Any]:
        """What these columns say, as the catalog writes it: a compact JSON array; NULL where there are none.

        Floats are written so that they read back to the same bits, timestamps as microseconds.
        """
        if not names:
            return pa.nulls(len(rows), pa.string())
        columns = []
        for name in names:
            column = self.table.column(name).take(pa.array(rows))
            columns.append(
                (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
            )
        texts = [json.dumps(values, separators=(",", ":")) for values in zip(*columns, strict=True)]
        return pa.array(texts, pa.string())


def _begins(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    found = np.ones(len(values), dtype=np.bool_)
    found[1:] = values[1:] != values[:-1]
    return found
