"""The readings of a segment's fragments in canonical order, with no sorting where they stand in order already."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from disarray.errors import FragmentMismatchError
from disarray.kernels.parsing.columns import ARROW_TYPES
from disarray.kernels.scanning.vectors import flat, ranks, vector_of
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.kernels.scanning.vectors import Mask
    from disarray.model.description.scan_spec import ScanSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentInput:
    """One fragment as the catalog knows it: of its readings, those in [from_position, cut) are valid."""

    readings: pa.Table  # sorted by (event time, order columns NULLS FIRST, position)
    uri: str
    rows: int  # how many valid readings the catalog promises
    priority: int = 0
    from_position: int | None = None
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """All valid readings of a segment, concatenated, and the order they belong in."""

    table: pa.Table
    sources: NDArray[np.int32]  # by row: rank of its uri
    priorities: NDArray[np.int64]  # by row
    order: (
        NDArray[np.int64] | None
    )  # canonical index → row; None: the rows stand in order already, all of them

    def __len__(self) -> int:
        return len(self.sources) if self.order is None else len(self.order)

    def in_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values by row as values by canonical index."""
        return values if self.order is None else values[self.order]

    def numbers(self, name: str) -> NDArray[np.int64]:
        """A column without NULLs, by canonical index."""
        return self.in_order(flat(self.table.column(name)).to_numpy())

    def only(self, indices: NDArray[np.int64]) -> Rows:
        """The rows without those at other canonical indices."""
        return replace(self, order=indices if self.order is None else self.order[indices])

    def at(self, indices: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """The readings at these canonical indices."""
        rows = indices if self.order is None else self.order[indices]
        return self.table.select(list(columns)).take(pa.array(rows))


@dataclass(frozen=True, slots=True)
class _Run:
    table: pa.Table
    rank: int
    priority: int
    first_us: int
    last_us: int
    first_position: int


def columns_of(spec: ScanSpec) -> list[str]:
    """What a reading of the dataset carries, the declared columns last."""
    return [EVENT_US, POSITION, *([CHANNEL] if spec.has_channel else []), *spec.columns]


def concatenate(fragments: Sequence[FragmentInput], uris: Sequence[str], spec: ScanSpec) -> Rows:
    """All valid readings and their canonical order; `uris` are those of the fragments, by UTF-8 bytes."""
    names = columns_of(spec)
    ranks_of = {uri: rank for rank, uri in enumerate(uris)}
    runs = [
        run
        for fragment in fragments
        if (run := _run(fragment, rank=ranks_of[fragment.uri], names=names)) is not None
    ]
    runs.sort(key=lambda run: (run.first_us, run.last_us))
    apart = all(earlier.last_us < later.first_us for earlier, later in pairwise(runs))
    if not apart:
        # Ties in time are then, mostly, in order by uri and position already.
        runs.sort(key=lambda run: (run.rank, run.first_position))
    lengths = [run.table.num_rows for run in runs]
    table = pa.concat_tables([run.table for run in runs]) if runs else _no_readings(spec)
    rows = Rows(
        table,
        np.repeat(np.array([run.rank for run in runs], dtype=np.int32), lengths),
        np.repeat(np.array([run.priority for run in runs], dtype=np.int64), lengths),
        None,
    )
    if apart:
        return rows
    pieces = np.repeat(np.arange(len(runs)), lengths)
    return replace(rows, order=_sorted_order(rows, pieces, spec.order_by))


def _no_readings(spec: ScanSpec) -> pa.Table:
    reserved = {EVENT_US: pa.int64(), POSITION: pa.int64(), CHANNEL: pa.string()}
    types = reserved | {name: ARROW_TYPES[kind] for name, kind in spec.columns.items()}
    return pa.schema([(name, types[name]) for name in columns_of(spec)]).empty_table()


def _run(fragment: FragmentInput, *, rank: int, names: Sequence[str]) -> _Run | None:
    table = fragment.readings.select(list(names))
    position = flat(table.column(POSITION)).to_numpy()
    if fragment.cut is not None or fragment.from_position is not None:
        first = 0 if fragment.from_position is None else fragment.from_position
        kept = position >= first
        if fragment.cut is not None:
            kept &= position < fragment.cut
        if not kept.all():
            table, position = table.filter(pa.array(kept)), position[kept]
    if table.num_rows != fragment.rows:
        raise FragmentMismatchError(
            f"a fragment of {fragment.uri} holds {table.num_rows} valid readings where the catalog says "
            f"{fragment.rows}; nothing of the segment was changed. Run 'disarray files reingest' on the file"
        )
    if not table.num_rows:
        return None
    event_us = flat(table.column(EVENT_US)).to_numpy()
    if (event_us[1:] < event_us[:-1]).any():
        # Unseen, it would fold in the wrong order and give plausible numbers.
        raise FragmentMismatchError(
            f"a fragment of {fragment.uri} is not sorted by event time; nothing of the segment was changed. "
            "Run 'disarray files reingest' on the file"
        )
    return _Run(
        table,
        rank,
        fragment.priority,
        int(event_us[0]),
        int(event_us[-1]),
        int(position.min()),
    )


def _sorted_order(rows: Rows, pieces: NDArray[np.int64], order_by: Sequence[str]) -> NDArray[np.int64]:
    """Merge runs by time, then put right what shares a time with readings of another run."""
    event_us = flat(rows.table.column(EVENT_US)).to_numpy()
    position = flat(rows.table.column(POSITION)).to_numpy()
    order = np.argsort(event_us, kind="stable")
    ordered_us, ordered_pieces = event_us[order], pieces[order]
    tied = ordered_us[1:] == ordered_us[:-1]
    mixed = tied & (ordered_pieces[1:] != ordered_pieces[:-1])
    if not mixed.any():
        return order
    if not order_by:
        source, at = rows.sources[order], position[order]
        ascending = (source[1:] > source[:-1]) | ((source[1:] == source[:-1]) & (at[1:] > at[:-1]))
        if not (tied & ~ascending).any():
            return order
    indices = np.flatnonzero(whole_ties(tied, mixed))
    subset = order[indices]
    taken = rows.table.select(list(order_by)).take(pa.array(subset))
    keys = [position[subset], rows.sources[subset]]
    keys += [ranks(vector_of(taken.column(name))) for name in reversed(order_by)]
    keys.append(event_us[subset])
    order[indices] = subset[np.lexsort(keys)]
    return order


def whole_ties(tied: Mask, marked: Mask) -> Mask:
    """The rows of every tie in which a pair of neighbours is marked."""
    tie = np.concatenate([[0], np.cumsum(~tied)])
    has_mark = np.zeros(int(tie[-1]) + 1, dtype=np.bool_)
    has_mark[tie[1:][marked]] = True
    result: Mask = has_mark[tie]
    return result
