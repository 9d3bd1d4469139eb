"""Two Arrow tables side by side, bit for bit. Where they are the same, no row of them becomes a Python object."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROW = "row"  # the name of a difference that is a whole row


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """A value of a row that both tables have; or, under the name `ROW`, a row that one of them has."""

    key: tuple[Any, ...]
    column: str
    stored: object
    replayed: object


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table: what tells its rows apart, and all of its columns."""

    keys: tuple[str, ...]
    schema: pa.Schema
    # Columns in which a stored NULL says nothing: of rows from before there was such a column.
    not_always_known: frozenset[str] = frozenset()

    def table(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Rows of the catalog in the shape that kernels give."""
        return pa.Table.from_pylist([dict(row) for row in rows], schema=self.schema)

    def differences(self, stored: pa.Table, replayed: pa.Table) -> Iterator[ValueDifference]:
        """What differs, in the order of keys."""
        left, right = self._sorted(stored), self._sorted(replayed)
        if is_same(left, right):
            return
        before, after = self._by_key(left), self._by_key(right)
        for key in sorted({*before, *after}):
            if key not in before or key not in after:
                there = ["there" if key in side else None for side in (before, after)]
                yield ValueDifference(key, ROW, *there)
                continue
            for name, old in before[key].items():
                new = after[key][name]
                is_unknown = old is None and name in self.not_always_known
                if not is_unknown and not is_same_value(old, new):
                    yield ValueDifference(key, name, old, new)

    def _sorted(self, table: pa.Table) -> pa.Table:
        own = table.select(self.schema.names).cast(self.schema)
        return own.sort_by([(name, "ascending") for name in self.keys])

    def _by_key(self, table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
        return {tuple(row[name] for name in self.keys): row for row in table.to_pylist()}


def is_same(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables of one shape hold the same bits in the same order."""
    return left.num_rows == right.num_rows and all(
        _bits(one).equals(other) for one, other in zip(left.columns, map(_bits, right.columns), strict=True)
    )


def is_same_value(left: object, right: object) -> bool:
    """Whether two values are equal to the bit."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("d", left) == struct.pack("d", right)
    return left == right


def _bits(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    # Arrow takes -0.0 for 0.0, and a NaN for no value at all.
    whole = column.combine_chunks()
    return whole.view(pa.int64()) if pa.types.is_float64(whole.type) else whole
