"""Rows that have been typed but not yet placed in time, and what became of the lines that are none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from disarray.kernels.parsing.columns import exact_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.kernels.parsing.cell_values import ExactValue
    from disarray.kernels.parsing.layouts import Stamp
    from disarray.model.description.format import Column


class Disposition(IntEnum):
    """Where a line went; every line of a frame gets exactly one."""

    KEPT = 0
    REJECTED = 1
    BLANK = 2
    PREAMBLE = 3


@dataclass(frozen=True, slots=True)
class Candidates:
    """Typed rows in file order; `rows` are indexes of lines in their frame."""

    rows: NDArray[np.int64]
    us: NDArray[np.int64]
    is_local: NDArray[np.bool_]
    columns: list[pa.Array[Any]]

    def filter(self, keep: NDArray[np.bool_]) -> Candidates:
        """Only the rows that are kept."""
        if keep.all():
            return self
        mask = pa.array(keep)
        columns = [column.filter(mask) for column in self.columns]
        return Candidates(self.rows[keep], self.us[keep], self.is_local[keep], columns)

    def take(self, indices: NDArray[np.int64]) -> Candidates:
        """Some of the rows, in the order in which they are named."""
        if len(indices) == len(self.rows) and (np.diff(indices) == 1).all():
            return self
        taken = pa.array(indices)
        columns = [column.take(taken) for column in self.columns]
        return Candidates(self.rows[indices], self.us[indices], self.is_local[indices], columns)


@dataclass(frozen=True, slots=True)
class ExactRow:
    """One row that was read cell by cell."""

    row: int
    stamp: Stamp
    values: Sequence[ExactValue]


def from_exact(rows: Sequence[ExactRow], columns: Sequence[Column]) -> Candidates:
    """Rows that were read one by one, as columns."""
    return Candidates(
        np.array([row.row for row in rows], dtype=np.int64),
        np.array([row.stamp.us for row in rows], dtype=np.int64),
        np.array([row.stamp.is_local for row in rows], dtype=np.bool_),
        [exact_column([row.values[at] for row in rows], column) for at, column in enumerate(columns)],
    )


def in_file_order(parts: Sequence[Candidates], columns: Sequence[Column]) -> Candidates:
    """All parts as one, by line."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return from_exact([], columns)
    rows = np.concatenate([part.rows for part in parts])
    us = np.concatenate([part.us for part in parts])
    is_local = np.concatenate([part.is_local for part in parts])
    arrays = [pa.concat_arrays([part.columns[at] for part in parts]) for at in range(len(columns))]
    if (np.diff(rows) > 0).all():
        return Candidates(rows, us, is_local, arrays)
    order = np.argsort(rows, kind="stable")
    taken = pa.array(order)
    return Candidates(rows[order], us[order], is_local[order], [array.take(taken) for array in arrays])
