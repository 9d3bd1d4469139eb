"""The winners of some segments in canonical order, by sorts of ranks: other code than the kernels' merge and hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.model.description.conflict_rule import ConflictRule
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION
from disarray.model.description.read_spec import KeyKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.model.description.dataset import Dataset

Ranks = np.ndarray[Any, np.dtype[np.int64]]


def canonical_rows(
    readings: pa.Table, files: Ranks, dataset: Dataset, *, contents: Ranks, arrivals: Ranks
) -> Ranks:
    """The rows that count, in canonical order.

    `files` numbers the file of each row in the order of uris by their bytes, then of generations. By file, `contents`
    is the same where the bytes are, and `arrivals` its number in the order of first announcements.
    """
    if not readings.num_rows:
        return np.zeros(0, dtype=np.int64)
    event_us = readings.column(EVENT_US).to_numpy()
    position = readings.column(POSITION).to_numpy()
    order = _in_order(readings, event_us, files, position, dataset.order_by)
    losers = _losers(readings, order, dataset, files=files, contents=contents, arrivals=arrivals)
    if not len(losers):
        return order
    counts = np.ones(len(order), dtype=np.bool_)
    counts[losers] = False
    return order[counts[order]]


def ranks(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> Ranks:
    """Numbers that are equal where the values are, and in their order; NULL is the least, texts go by their bytes."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_boolean(flat.type):
        flat = flat.cast(pa.int8())
    if pa.types.is_floating(flat.type):
        flat = pc.add(flat, 0.0)
    encoded = flat.dictionary_encode()
    found = np.empty(len(encoded.dictionary) + 1, dtype=np.int64)
    found[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    found[-1] = -1  # where the index is -1: NULL
    numbered: Ranks = found[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return numbered


def _in_order(
    readings: pa.Table, event_us: Ranks, files: Ranks, position: Ranks, order_by: Sequence[str]
) -> Ranks:
    steps = np.diff(event_us)
    if (steps > 0).all():
        return np.arange(len(event_us))
    further = [ranks(readings.column(name)) for name in reversed(order_by)]
    return np.lexsort([position, files, *further, event_us])


def _losers(
    readings: pa.Table,
    order: Ranks,
    dataset: Dataset,
    *,
    files: Ranks,
    contents: Ranks,
    arrivals: Ranks,
) -> Ranks:
    """Rows that share their key with one that wins."""
    kind = dataset.key.kind
    if kind is KeyKind.NONE:
        # Files with the same bytes are one file under several names.
        shared = np.bincount(contents)[contents] > 1
        rows = np.flatnonzero(shared[files])
    else:
        event_us = readings.column(EVENT_US).to_numpy()[order]
        same = np.concatenate([[False], event_us[1:] == event_us[:-1], [False]])
        rows = order[same[1:] | same[:-1]]
    if not len(rows):
        return rows
    some, own_files = readings.take(pa.array(rows)), files[rows]
    position = some.column(POSITION).to_numpy()
    if kind is KeyKind.NONE:
        key = groups([contents[own_files], position])
    else:
        names = dataset.key.columns if kind is KeyKind.COLUMNS else [each.name for each in dataset.columns]
        parts = [some.column(EVENT_US).to_numpy(), *(ranks(some.column(name)) for name in names)]
        if CHANNEL in some.column_names:
            parts.append(ranks(some.column(CHANNEL)))
        if kind is not KeyKind.COLUMNS:
            parts.append(_occurrences(groups([*parts, own_files]), position))
        key = groups(parts)
    preference = [position, own_files]
    if dataset.conflict.rule is ConflictRule.ARRIVAL:
        preference.append(arrivals[own_files])
    if dataset.conflict.column is not None:
        preference.append(ranks(some.column(dataset.conflict.column)))
    by_key = np.lexsort([*preference, key])
    is_winner = np.append(key[by_key][1:] != key[by_key][:-1], True)
    lost: Ranks = rows[by_key[~is_winner]]
    return lost


def groups(parts: Sequence[NDArray[np.int64]]) -> Ranks:
    """By row a number that is the same where all parts are."""
    order = np.lexsort(parts)
    changed = np.zeros(len(order), dtype=np.int64)
    for part in parts:
        ordered = part[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.cumsum(changed)
    return found


def _occurrences(group: Ranks, position: Ranks) -> Ranks:
    """The number of each row among those of its group, by position."""
    order = np.lexsort([position, group])
    ordered = group[order]
    index = np.arange(len(order))
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(order)]
    first = np.maximum.accumulate(np.where(is_first, index, 0))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = index - first
    return found
