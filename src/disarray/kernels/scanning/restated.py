"""Where the folds of a segment differ from those before a change: stretches of time, few enough for a row each.

The bases that these folds are added to are known only when the change is committed. So a stretch says, for the old and
the new state, what a value in it is made of, and a commit makes old and new values of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from disarray.kernels.scanning.running_values import series_locals
from disarray.model.description.format import ColumnType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from disarray.kernels.scanning.folds import Fold
    from disarray.kernels.scanning.series import Series

Row = dict[str, Any]
Indices = NDArray[np.int64] | slice  # a slice where they are without a gap: a view of a series, not a copy

# What a value is made of. CARRIED: the channel has no reading in the segment yet, so what was before it holds.
# WAITING: readings, but no point yet. JOINED: base and fold. RESTARTED: the fold alone, after a reset. ABSENT: an
# extreme without a point since the reset.
CARRIED, WAITING, JOINED, RESTARTED, ABSENT = range(5)
# Up to so many runs of one difference are kept as they are. Of more, the long ones and the last are, and those between
# are told by their ends and bounds: a late block of readings raises a total step by step, and then it holds.
MOST_RUNS = 3
KEPT_RUNS = 3
LONG_RUN = 3
# Sums of floats that differ by one constant differ by it up to the rounding of the additions.
ROUNDING = 1e-11
# A metric and channel in one segment, with more stretches than this: its bounds alone are kept.
MOST_STRETCHES = 100
_LARGE = 1 << 61  # what lies below it can be subtracted twice


@dataclass(frozen=True, slots=True)
class FoldedSegment:
    """One state of a segment: its readings, and the fold of each metric by its name."""

    series: Series
    folds: Mapping[str, Fold]


def compare_segments(old: FoldedSegment, new: FoldedSegment) -> Iterator[Row]:
    """Stretches in which values of a metric that both states have may differ for another reason than their base.

    A metric and channel without any has the same readings and folds in both. `from_us` and `to_us` are instants of
    readings of either state; a stretch never reaches over the last old reading of its channel.
    """
    aligned = {
        channel: _Instants.of(old.series, new.series, channel)
        for channel in sorted({*old.series.channels, *new.series.channels}, key=str.encode)
    }
    for name, fold in new.folds.items():
        if name in old.folds:
            yield from _compare_metric(old, old.folds[name], new, fold, aligned)


def _compare_metric(
    old: FoldedSegment,
    old_fold: Fold,
    new: FoldedSegment,
    new_fold: Fold,
    aligned: Mapping[str, _Instants],
) -> Iterator[Row]:
    was, now = old_fold.metric, new_fold.metric
    means_the_same = (was.kind, was.type) == (now.kind, now.type)
    is_additive = not (was.kind.is_extreme or now.kind.is_extreme)
    before, after = _State.of(old.series, old_fold), _State.of(new.series, new_fold)
    for channel, instants in aligned.items():
        old_mode, old_value = before.at(instants.old)
        new_mode, new_value = after.at(instants.new)
        if (
            means_the_same
            and instants.are_the_same
            and np.array_equal(old_mode, new_mode)
            and np.array_equal(old_value, new_value)
        ):
            continue
        pair = _Pair(
            instants.event_us,
            old_mode,
            new_mode,
            old_value,
            new_value,
            instants.last_old_us,
            means_the_same,
            is_additive,
        )
        for stretch in pair.stretches():
            yield {"metric": now.name, "channel": channel, **stretch}


@dataclass(frozen=True, slots=True)
class _Instants:
    """Every instant at which a channel has a reading in either state, and the last reading of each at or before it."""

    event_us: NDArray[np.int64]
    old: Indices  # in the old series; -1 before the first reading
    new: Indices
    last_old_us: int | None
    are_the_same: bool

    @classmethod
    def of(cls, old: Series, new: Series, channel: str) -> _Instants:
        old_us, old_indices = _last_readings(old, channel)
        new_us, new_indices = _last_readings(new, channel)
        last_old_us = int(old_us[-1]) if len(old_us) else None
        if np.array_equal(old_us, new_us):
            return cls(new_us, old_indices, new_indices, last_old_us, are_the_same=True)
        at = _places(old_us, new_us)
        if at is not None:
            # Most often readings were added and none went.
            newest = np.repeat(np.arange(-1, len(old_us)), np.diff(at, prepend=0, append=len(new_us)))
            return cls(new_us, _chosen(old_indices, newest), new_indices, last_old_us, are_the_same=False)
        event_us = np.union1d(old_us, new_us)
        return cls(
            event_us,
            _chosen(old_indices, np.searchsorted(old_us, event_us, side="right") - 1),
            _chosen(new_indices, np.searchsorted(new_us, event_us, side="right") - 1),
            last_old_us,
            are_the_same=False,
        )


def _last_readings(series: Series, channel: str) -> tuple[NDArray[np.int64], Indices]:
    """The instants of a channel's readings and the index of each one's last reading, which decides."""
    if channel not in series.channels:
        return np.empty(0, dtype=np.int64), slice(0, 0)
    number = series.channels.index(channel)
    start, end = int(series.starts[number]), int(series.starts[number + 1])
    event_us = series.event_us[start:end]
    is_last = event_us[1:] != event_us[:-1]
    if is_last.all():
        return event_us, slice(start, end)
    last = np.append(np.flatnonzero(is_last), len(event_us) - 1)
    return event_us[last], last + start


def _places(old: NDArray[np.int64], new: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Where each old instant is among the new ones; None unless all of them are there."""
    if len(old) > len(new):
        return None
    # What came is most often one block: both ends are where they were, and only what lies between is searched.
    front = _same_ends(old, new)
    back = _same_ends(old[front:][::-1], new[front:][::-1])
    between = new[front : len(new) - back]
    wanted = old[front : len(old) - back]
    found = np.searchsorted(between, wanted)
    if len(wanted) and (found[-1] == len(between) or not np.array_equal(between[found], wanted)):
        return None
    return np.concatenate([np.arange(front), found + front, np.arange(len(new) - back, len(new))])


def _same_ends(left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    """How many numbers both begin with."""
    count = min(len(left), len(right))
    differs = left[:count] != right[:count]
    first = int(differs.argmax()) if count else 0
    return first if count and differs[first] else count


def _chosen(indices: Indices, newest: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices of these, which may be -1 for none."""
    if isinstance(indices, slice):
        return np.where(newest >= 0, newest + indices.start, -1) if indices.start else newest
    return np.where(newest >= 0, indices[newest], -1)


@dataclass(frozen=True, slots=True)
class _State:
    """One metric in one state of the segment: what the value after each reading is made of."""

    mode: NDArray[np.int8]
    value: NDArray[Any]

    @classmethod
    def of(cls, series: Series, fold: Fold) -> _State:
        inside = series_locals(series, fold)
        mode = np.where(inside.has_point, np.int8(JOINED), np.int8(WAITING))
        if len(fold.pieces.starts) > len(series.starts):
            mode[inside.restarted] = RESTARTED
            if fold.metric.kind.is_extreme:
                mode[inside.restarted & ~inside.has_point] = ABSENT
        dtype = np.int64 if fold.metric.type is ColumnType.INT64 else np.float64
        return cls(mode, inside.values.astype(dtype, copy=False))

    def at(self, indices: Indices) -> tuple[NDArray[np.int8], NDArray[Any]]:
        if isinstance(indices, slice):
            return self.mode[indices], self.value[indices]
        if not len(self.mode):
            return np.full(len(indices), CARRIED, dtype=np.int8), np.zeros(
                len(indices), dtype=self.value.dtype
            )
        mode, value = self.mode[indices], self.value[indices]
        if len(indices) and indices[0] < 0:
            carried = indices < 0
            mode[carried], value[carried] = CARRIED, 0
        return mode, value


@dataclass(frozen=True, slots=True)
class _Pair:
    """Both states of one metric and channel at every instant at which either has a reading."""

    event_us: NDArray[np.int64]
    old_mode: NDArray[np.int8]
    new_mode: NDArray[np.int8]
    old: NDArray[Any]
    new: NDArray[Any]
    last_old_us: int | None
    means_the_same: bool
    is_additive: bool

    def stretches(self) -> Iterator[Row]:
        count = len(self.event_us)
        same = self.old == self.new if self.means_the_same else np.zeros(count, dtype=np.bool_)
        difference = self._difference()
        split = self.old_mode[1:] != self.old_mode[:-1]
        split |= self.new_mode[1:] != self.new_mode[:-1]
        if self.last_old_us is not None:
            split |= (self.event_us[1:] > self.last_old_us) & (self.event_us[:-1] <= self.last_old_us)
        groups = _starts(split)
        changes = same[1:] != same[:-1]
        if difference is None:
            moved = (self.old[1:] != self.old[:-1]) | (self.new[1:] != self.new[:-1])
            # Where both are the same they may move together.
            changes |= moved & ~(same[1:] & same[:-1])
        elif difference.dtype == np.float64:
            scale = max(float(np.abs(self.old).max()), float(np.abs(self.new).max()))
            changes |= np.abs(np.diff(difference)) > scale * ROUNDING
        else:
            changes |= np.diff(difference) != 0
        runs = _starts(split | changes)
        found = []
        bounds = list(zip(groups.tolist(), [*groups[1:].tolist(), count], strict=True))
        for start, end in bounds:
            own = runs[np.searchsorted(runs, start) : np.searchsorted(runs, end)]
            found += [
                self._row(first, last, same=bool(same[first:last].all()), difference=difference)
                for first, last in _condensed(own, end, begins_the_same=bool(same[start]))
            ]
        if len(found) > MOST_STRETCHES:
            found = [
                self._row(start, end, same=bool(same[start:end].all()), difference=difference)
                for start, end in bounds
            ]
        yield from found

    def _difference(self) -> NDArray[Any] | None:
        """By instant, how far the new fold lies above the old one; None where bases may change that."""
        if not self.is_additive:
            return None
        if self.old.dtype == np.int64 and self.new.dtype == np.int64:
            most = max(
                *(abs(int(edge)) for side in (self.old, self.new) for edge in (side.min(), side.max()))
            )
            return self.new - self.old if most < _LARGE else None
        with np.errstate(all="ignore"):
            new, old = (side.astype(np.float64, copy=False) for side in (self.new, self.old))
            difference: NDArray[np.float64] = new - old
        return difference if bool(np.isfinite(difference).all()) else None

    def _row(self, start: int, end: int, *, same: bool, difference: NDArray[Any] | None) -> Row:
        old, new = self.old[start:end], self.new[start:end]
        row: Row = {
            "from_us": int(self.event_us[start]),
            "to_us": int(self.event_us[end - 1]),
            "old_mode": int(self.old_mode[start]),
            "new_mode": int(self.new_mode[start]),
            "old_first": old[0].item(),
            "old_last": old[-1].item(),
            "new_first": new[0].item(),
            "new_last": new[-1].item(),
            "same": same,
        }
        if difference is not None:
            # Counted from the first: what the bases differ by is in the values there.
            own = difference[start:end] - difference[start]
            row |= {"low": own.min().item(), "high": own.max().item()}
        elif not same:
            row |= {
                "old_low": old.min().item(),
                "old_high": old.max().item(),
                "new_low": new.min().item(),
                "new_high": new.max().item(),
            }
        return row


def _starts(split: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.flatnonzero(split) + 1])


def _condensed(runs: NDArray[np.int64], end: int, *, begins_the_same: bool) -> list[tuple[int, int]]:
    """Runs as (first, end); of many, those between the longest ones are joined."""
    ends = np.append(runs[1:], end)
    if len(runs) <= MOST_RUNS:
        return list(zip(runs.tolist(), ends.tolist(), strict=True))
    lengths = ends - runs
    longest = np.argsort(-lengths, kind="stable")[:KEPT_RUNS]
    kept = {*longest[lengths[longest] >= LONG_RUN].tolist(), len(runs) - 1}
    if begins_the_same:
        kept.add(0)
    found: list[tuple[int, int]] = []
    listed = 0  # runs up to here
    for number in sorted(kept):
        if number > listed:
            found.append((int(runs[listed]), int(runs[number])))
        found.append((int(runs[number]), int(ends[number])))
        listed = number + 1
    return found
