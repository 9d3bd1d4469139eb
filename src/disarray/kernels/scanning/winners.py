"""Which readings lose to another under their key: exact, with one sort of hashes where keys may repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from disarray.kernels.scanning.segment_rows import whole_ties
from disarray.kernels.scanning.vectors import identity, ranks, vector_of
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION
from disarray.model.description.read_spec import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from disarray.kernels.scanning.segment_rows import Rows
    from disarray.model.description.scan_spec import ScanSpec

_NONE = np.empty(0, dtype=np.int64)
# Odd constants whose bits look random; another one is tried where two keys share a hash.
_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
_FEWEST_HASH_BITS = 20


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows that are equal: `members` lists group after group in their given order, `starts` where each begins."""

    members: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of its group, by member."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(self.members)))


def find_losers(rows: Rows, spec: ScanSpec) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The canonical indices of the readings that lose, and beside each its winner's.

    Of the readings under one key the one with the greater value in the column of the rule wins, where it names one,
    then the one with the higher priority, then the greater uri by bytes, then the later position.
    """
    event_us = rows.numbers(EVENT_US)
    indices = _candidates(rows, event_us, spec.key.kind)
    if not len(indices):
        return _NONE, _NONE
    columns = tuple(spec.columns) if spec.key.kind is KeyKind.CONTENT else spec.key.columns
    table = rows.at(indices, [*([CHANNEL] if spec.has_channel else []), *columns])
    keys: list[NDArray[np.int64]] = []
    for column in table.columns:
        vector = vector_of(column)
        keys.append(identity(vector))
        if vector.valid is not None:
            keys.append(vector.valid.astype(np.int64))
    groups = group_equal(event_us[indices], keys)
    if not len(groups.members):
        return _NONE, _NONE
    members = indices[groups.members]
    source, priority = rows.in_order(rows.sources)[members], rows.in_order(rows.priorities)[members]
    group = groups.numbers
    if spec.key.kind is KeyKind.CONTENT:
        occurrence = _occurrences(group, source)
        order = np.lexsort((source, priority, occurrence, group))
        last = _last_of_each(group[order], occurrence[order])
    else:
        newest = _newest(rows, members, spec)
        order = np.lexsort((rows.numbers(POSITION)[members], source, priority, *newest, group))
        last = _last_of_each(group[order])
    ordered = members[order]
    winner_of = np.repeat(ordered[last], np.diff(last, prepend=-1))
    lost = winner_of != ordered
    return ordered[lost], winner_of[lost]


def group_equal(
    times: NDArray[np.int64], keys: Sequence[NDArray[np.int64]], *, seeds: Iterable[int] = _SEEDS
) -> Groups:
    """The rows that share time and every key with another row; `times` ascend.

    Equal rows have equal hashes, so rows without a partner are seen by one sort of numbers. Rows that share a hash are
    compared; should two of them differ, the next seed parts them.
    """
    changed = times[1:] != times[:-1]
    tie = np.concatenate([[0], np.cumsum(changed)])
    for seed in seeds:
        members, starts = _group_by_hash(tie, _hash(keys, len(times), seed))
        firsts = np.repeat(members[starts], np.diff(starts, append=len(members)))
        if all(np.array_equal(key[members], key[firsts]) for key in keys):
            return Groups(members, starts)
    order = np.lexsort([*keys, tie])
    same = tie[order][1:] == tie[order][:-1]
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    return Groups(*_repeated(order, same))


def _newest(rows: Rows, members: NDArray[np.int64], spec: ScanSpec) -> list[NDArray[Any]]:
    """Numbers in the order of the column by which readings are chosen; NULL is older than anything."""
    if spec.conflict.column is None:
        return []
    return [ranks(vector_of(rows.at(members, [spec.conflict.column]).column(0)))]


def _candidates(rows: Rows, event_us: NDArray[np.int64], kind: KeyKind) -> NDArray[np.int64]:
    """The canonical indices of readings that may share their key with another: most often none."""
    if kind is KeyKind.NONE or not len(rows):
        return _NONE
    # Equal readings within a file are told apart by their occurrence: only another file can bring a copy.
    if kind is KeyKind.CONTENT and rows.sources.min() == rows.sources.max():
        return _NONE
    marked = tied = event_us[1:] == event_us[:-1]
    if kind is KeyKind.CONTENT:
        source = rows.in_order(rows.sources)
        marked = tied & (source[1:] != source[:-1])
    return np.flatnonzero(whole_ties(tied, marked)) if marked.any() else _NONE


def _hash(keys: Sequence[NDArray[np.int64]], rows: int, seed: int) -> NDArray[np.uint64]:
    mixed = np.zeros(rows, dtype=np.uint64)
    factor = np.uint64(seed)
    for key in keys:
        mixed ^= key.view(np.uint64)
        mixed *= factor
        mixed ^= mixed >> np.uint64(29)
    mixed *= factor
    return mixed


def _group_by_hash(
    tie: NDArray[np.int64], hashes: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of one tie with one hash, in order; the number of the row rides in the low bits, so a plain sort does."""
    firsts = np.flatnonzero(np.diff(tie, prepend=-1))
    within = np.arange(len(tie)) - firsts[tie]
    tie_bits, within_bits = int(tie[-1]).bit_length(), int(within.max()).bit_length()
    hash_bits = 64 - tie_bits - within_bits
    if hash_bits < _FEWEST_HASH_BITS:
        order = np.lexsort((hashes, tie))
        same = (tie[order][1:] == tie[order][:-1]) & (hashes[order][1:] == hashes[order][:-1])
        return _repeated(order, same)
    packed = (hashes >> np.uint64(64 - hash_bits)) << np.uint64(within_bits)
    packed |= within.astype(np.uint64)
    if tie_bits:
        packed |= tie.astype(np.uint64) << np.uint64(64 - tie_bits)
    packed.sort()
    shared = packed >> np.uint64(within_bits)
    same = shared[1:] == shared[:-1]
    if not same.any():
        return _NONE, _NONE
    mask = np.uint64((1 << within_bits) - 1)
    # Sorting kept every tie in its place: only the order within it changed.
    order = firsts[tie] + (packed & mask).astype(np.int64)
    return _repeated(order, same)


def _repeated(
    order: NDArray[np.int64], same: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of the rows in order, those that equal a neighbour, and where among them each group begins."""
    if not same.any():
        return _NONE, _NONE
    follows = np.concatenate([[False], same])
    leads = np.concatenate([same, [False]])
    repeated = follows | leads
    return order[repeated], np.flatnonzero(~follows[repeated])


def _occurrences(group: NDArray[np.int64], source: NDArray[np.int32]) -> NDArray[np.int64]:
    """The number of each reading among equal ones of its file: equal readings stand by uri, then by position."""
    changed = (np.diff(group) != 0) | (np.diff(source) != 0)
    firsts = np.concatenate([[0], np.flatnonzero(changed) + 1])
    counted: NDArray[np.int64] = np.arange(len(group)) - np.repeat(firsts, np.diff(firsts, append=len(group)))
    return counted


def _last_of_each(*keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of the last row of each run of equal keys."""
    changed = np.zeros(len(keys[0]) - 1, dtype=np.bool_)
    for key in keys:
        changed |= key[1:] != key[:-1]
    return np.append(np.flatnonzero(changed), len(keys[0]) - 1)
