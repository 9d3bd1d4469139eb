"""Left folds over many groups at once: the bits of adding one value after the other, without a loop over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from disarray.kernels.arithmetic import add_exactly

if TYPE_CHECKING:
    from numpy.typing import NDArray

# From this length on a call per group costs less than a call per place within the groups.
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
        _accumulate_short(fold, values, starts[~is_long], lengths=lengths[~is_long], folded=folded)
    return folded


def _accumulate_short(
    fold: np.ufunc,
    values: NDArray[Any],
    starts: NDArray[np.int64],
    *,
    lengths: NDArray[np.int64],
    folded: NDArray[Any],
) -> None:
    """All groups side by side, one place after the other; the longest come first, so the others drop off the end."""
    order = np.argsort(-lengths, kind="stable")
    places = starts[order]
    # How many groups reach the first, second, … place.
    reaching = len(lengths) - np.cumsum(np.bincount(lengths))[:-1]
    folded[places] = values[places]
    for alive in reaching[1:].tolist():
        before = places[:alive]
        places = before + 1
        folded[places] = fold(folded[before], values[places])


def leaves_range(values: NDArray[Any], folded: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """By group: whether its running sums ever left what the type can hold."""
    if not len(values):
        return np.zeros(0, dtype=np.bool_)
    if values.dtype == np.float64:
        # Once a sum is infinite it never becomes finite again.
        infinite: NDArray[np.bool_] = ~np.isfinite(folded[np.append(starts[1:], len(values)) - 1])
        return infinite
    longest = int(np.diff(starts, append=len(values)).max())
    if max(abs(int(values.min())), abs(int(values.max()))) * longest < 1 << 63:
        return np.zeros(len(starts), dtype=np.bool_)
    before = np.concatenate([[0], folded[:-1]])
    before[starts] = 0
    _, failed = add_exactly(before, values)
    return np.logical_or.reduceat(failed, starts)
