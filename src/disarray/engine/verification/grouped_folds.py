"""Left folds over many groups at once: each value is added to what came before it in its group, one after the other.

NumPy's `accumulate` is such a fold, and along the rows of a matrix it is one for each row. So groups of about one
length become a matrix, and no group costs a call of its own. What stands behind the end of a shorter group comes after
all that is taken from its row, and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# From here on a matrix costs more than a call for each group.
_LONG = 4096
_LIMIT = 1 << 63


def fold_groups(
    fold: np.ufunc, values: NDArray[Any], starts: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """By value: the fold of its group up to it, and whether its type can hold that; no group is empty."""
    folded = np.empty_like(values)
    fits = np.ones(len(values), dtype=np.bool_)
    if not len(values):
        return folded, fits
    lengths = np.diff(starts, append=len(values))
    if fold is np.add and values.dtype == np.int64 and _may_overflow(values, int(lengths.max())):
        return _fold_exactly(values, starts, lengths)
    with np.errstate(all="ignore"):
        # Groups of up to 1, 2, 4, … values: at least half of each row is used.
        classes = np.ceil(np.log2(lengths)).astype(np.int64)
        for each in np.unique(classes).tolist():
            own = np.flatnonzero(classes == each)
            _fold_class(fold, values, starts[own], lengths[own], folded)
    return folded, fits


def _fold_class(
    fold: np.ufunc,
    values: NDArray[Any],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    folded: NDArray[Any],
) -> None:
    width = int(lengths.max())
    if width > _LONG:
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            fold.accumulate(values[start : start + length], out=folded[start : start + length])
        return
    within = np.arange(width)
    indices = starts[:, None] + within
    matrix = values[np.minimum(indices, len(values) - 1)]
    is_own = within < lengths[:, None]
    folded[indices[is_own]] = fold.accumulate(matrix, axis=1)[is_own]


def _may_overflow(values: NDArray[np.int64], longest: int) -> bool:
    return max(-int(values.min()), int(values.max())) * longest >= _LIMIT


def _fold_exactly(
    values: NDArray[np.int64], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """In Python's whole numbers, which know no end; what leaves int64 is marked, and all that follows it."""
    folded = np.zeros_like(values)
    fits = np.ones(len(values), dtype=np.bool_)
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        total = 0
        for index in range(start, start + length):
            total += int(values[index])
            if not -_LIMIT <= total < _LIMIT:
                fits[index : start + length] = False
                break
            folded[index] = total
    return folded, fits
