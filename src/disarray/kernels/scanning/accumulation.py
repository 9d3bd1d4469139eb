"""Left folds over many groups at once: the bits of adding one value after the other, without a loop over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from disarray.kernels.scanning.arithmetic import add_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

# From this length on a call per group costs less than a call per index within the groups.
_LONG = 96


def accumulate(fold: np.ufunc, values: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    """The fold of each group up to and including each value; `starts` are where groups begin, none of them empty.

    Only `fold.accumulate` and single operations are used: NumPy's `sum` and `reduceat` add pairwise and give
    other bits.
    """
    folded = np.empty_like(values)
    if not len(values):
        return folded
    lengths = np.diff(starts, append=len(values))
    is_long = lengths >= _LONG
    for start, end in zip(starts[is_long].tolist(), (starts + lengths)[is_long].tolist(), strict=True):
        fold.accumulate(values[start:end], out=folded[start:end])
    if not is_long.all():
        short = _Short(starts[~is_long], lengths[~is_long])
        running = folded[short.indices] = values[short.indices]
        for alive, indices in short.further():
            fold(running[:alive], values[indices], out=running[:alive])
            folded[indices] = running[:alive]
    return folded


def totals(values: NDArray[Any], starts: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """By group: the last of its running sums, and whether one of them left what the type can hold."""
    if values.dtype != np.float64 and not _surely_fits(values, starts):
        folded = accumulate(np.add, values, starts)
        return folded[np.append(starts[1:], len(values)) - 1], leaves_range(values, folded, starts)
    found = np.empty(len(starts), dtype=values.dtype)
    lengths = np.diff(starts, append=len(values))
    is_long = lengths >= _LONG
    for group in np.flatnonzero(is_long).tolist():
        found[group] = np.add.accumulate(values[starts[group] : starts[group] + lengths[group]])[-1]
    if not is_long.all():
        short = _Short(starts[~is_long], lengths[~is_long])
        sums = values[short.indices]
        for alive, indices in short.further():
            sums[:alive] += values[indices]
        found[np.flatnonzero(~is_long)[short.order]] = sums
    return found, ~np.isfinite(found)


class _Short:
    """Short groups side by side, one index after the other; the longest come first, so others drop off the end."""

    def __init__(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        self.order = np.argsort(-lengths, kind="stable")
        self.indices = starts[self.order]
        # How many groups reach the first, second, … index.
        self._reaching = len(lengths) - np.cumsum(np.bincount(lengths))[:-1]

    def further(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """How many groups reach the second, third, … index, and where that is."""
        for distance, alive in enumerate(self._reaching[1:].tolist(), start=1):
            yield alive, self.indices[:alive] + distance


def leaves_range(values: NDArray[Any], folded: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """By group: whether its running sums ever left what the type can hold."""
    if not len(values):
        return np.zeros(0, dtype=np.bool_)
    if values.dtype == np.float64:
        # Once a sum is infinite it never becomes finite again.
        infinite: NDArray[np.bool_] = ~np.isfinite(folded[np.append(starts[1:], len(values)) - 1])
        return infinite
    if _surely_fits(values, starts):
        return np.zeros(len(starts), dtype=np.bool_)
    before = np.concatenate([[0], folded[:-1]])
    before[starts] = 0
    _, failed = add_exactly(before, values)
    return np.logical_or.reduceat(failed, starts)


def _surely_fits(values: NDArray[np.int64], starts: NDArray[np.int64]) -> bool:
    if not len(values):
        return True
    longest = int(np.diff(starts, append=len(values)).max())
    return max(abs(int(values.min())), abs(int(values.max()))) * longest < 1 << 63
