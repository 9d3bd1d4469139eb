"""How many rows of a Delta table survive a load that overwrites its subject, while the rows of that load go by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from disarray.model.segments import datetime_of
from disarray.sinks.destination_shape import SUBJECT

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset, Expression

    from disarray.sinks.destination_shape import Shape

# Keys in memory before the table is asked which of them it has.
_KEYS_AT_ONCE = 200_000
# In no name and no number; a channel may have it, and is the only such text of a key.
_BETWEEN = "\x1f"


@dataclass(slots=True)
class Survivors:
    """Keys that are loaded, looked up in what the table has of the subject: `rows` are those that stay.

    Rows come in the order of their time, one table of them after the other, so what the table has before a table of
    them can be looked at, and their keys forgotten. Out of that order too few would be found, and never too many.
    """

    has: Dataset
    is_subject: Expression
    shape: Shape
    rows: int = 0
    _keys: list[pa.Array] = field(default_factory=list)
    _from_us: int | None = None
    _last_us: int | None = None

    def count_all(self) -> int:
        """How many rows the table has of the subject."""
        return int(self.has.count_rows(filter=self.is_subject))

    def add(self, loaded: pa.Table) -> None:
        """Take rows that are loaded: at least one, of the subject."""
        times = pc.min_max(loaded.column(self.shape.time).cast(pa.int64()))
        first_us, last_us = times["min"].as_py(), times["max"].as_py()
        is_ordered = (
            self.shape.time in self.shape.key and self._last_us is not None and first_us > self._last_us
        )
        if is_ordered and sum(map(len, self._keys)) >= _KEYS_AT_ONCE:
            self._look_up(first_us)
        self._keys.append(self._keys_of(loaded))
        self._last_us = last_us if self._last_us is None else max(last_us, self._last_us)

    def end(self) -> None:
        """Look up what is left."""
        self._look_up(None)

    def _look_up(self, to_us: int | None) -> None:
        """Count what the table has up to a time, or to its end, under the keys that came."""
        chosen, time = self.is_subject, pc.field(self.shape.time)
        if self._from_us is not None:
            chosen &= time >= datetime_of(self._from_us)
        if to_us is not None:
            chosen &= time < datetime_of(to_us)
        keys = pa.chunked_array(self._keys, pa.string()).unique()
        if len(keys):
            for batch in self.has.to_batches(columns=self._names, filter=chosen):
                found = pc.is_in(self._keys_of(pa.table(batch)), value_set=keys)
                self.rows += pc.sum(found).as_py() or 0
        self._keys, self._from_us = [], to_us

    @property
    def _names(self) -> list[str]:
        return [name for name in self.shape.key if name != SUBJECT]

    def _keys_of(self, rows: pa.Table) -> pa.Array:
        """The key of each row but for the subject, as one text."""
        parts = []
        for name in self._names:
            column = rows.column(name)
            is_instant = pa.types.is_timestamp(column.type)
            parts.append((column.cast(pa.int64()) if is_instant else column).cast(pa.string()))
        joined = pc.binary_join_element_wise(*parts, _BETWEEN)
        return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
