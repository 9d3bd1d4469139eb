"""Metrics over any stretch of readings: points, steps and left folds, and what is kept of each piece.

The same code serves a segment and a whole history: what differs is where the readings are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.engine.verification.grouped_folds import fold_groups
from disarray.engine.verification.metric_kinds import ADDS_STEPS, FOLDS, Pairs, steps_between
from disarray.model.description.format import ColumnType
from disarray.model.description.metrics import MetricKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disarray.engine.verification.history import History
    from disarray.model.description.metrics import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """One metric over readings that are cut in stretches; a piece is what lies between two resets of a stretch."""

    metric: Metric
    piece: NDArray[np.int64]  # by row
    stretch: NDArray[np.int64]  # by row
    rows: NDArray[np.int64]  # of points
    values: NDArray[Any]  # by point, as what follows
    piece_of_point: NDArray[np.int64]
    locals: NDArray[Any]  # the fold of the piece so far
    fits: NDArray[np.bool_]
    sizes: NDArray[np.float64]  # the sum of the sizes of all its steps so far


def fold_metric(history: History, metric: Metric, begins: NDArray[np.bool_]) -> Folded:
    """Fold one metric; `begins` marks the rows at which a stretch begins."""
    all_rows = np.arange(len(begins))
    resets = np.concatenate([[False], history.changes(metric.reset_on, all_rows)])[: len(begins)]
    piece = np.cumsum(begins | resets) - 1
    points = history.points(metric.input, metric.where)
    rows, values = points.rows, points.values
    if metric.kind is MetricKind.COUNT:
        values = np.ones(len(rows), dtype=np.int64)
    elif metric.type is ColumnType.FLOAT64:
        values = values.astype(np.float64, copy=False)
    own_piece = piece[rows]
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = own_piece[1:] != own_piece[:-1]
    with np.errstate(all="ignore"):
        steps, is_whole = _steps(history, metric, rows, values, is_first)
    starts = np.flatnonzero(is_first)
    locals_, fits = fold_groups(FOLDS[metric.kind], steps, starts)
    if not is_whole.all():
        broken, _ = fold_groups(np.add, (~is_whole).astype(np.int64), starts)
        fits &= broken == 0
    sizes, _ = fold_groups(np.add, np.abs(steps.astype(np.float64)), starts)
    return Folded(
        metric=metric,
        piece=piece,
        stretch=np.cumsum(begins) - 1,
        rows=rows,
        values=values,
        piece_of_point=own_piece,
        locals=locals_,
        fits=fits,
        sizes=sizes,
    )


def _steps(
    history: History,
    metric: Metric,
    rows: NDArray[np.int64],
    values: NDArray[Any],
    is_first: NDArray[np.bool_],
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """What each point adds, and whether its type can hold that."""
    fits = np.ones(len(rows), dtype=np.bool_)
    if not ADDS_STEPS[metric.kind]:
        return values, fits
    pairs = Pairs(
        earlier=values[:-1],
        later=values[1:],
        elapsed_us=np.diff(history.event_us[rows]),
        is_broken=history.changes(metric.break_on, rows),
    )
    steps = np.zeros_like(values)
    steps[1:], fits[1:] = steps_between(metric, pairs)
    steps[is_first] = 0
    return steps, fits | is_first


def summary_rows(history: History, folded: Folded) -> dict[str, Any]:
    """Columns of what the catalog keeps of the first piece and the last of every stretch; no bases.

    What lies between the first reset and the last matters to nobody outside the stretch. `magnitude` is the sum of the
    sizes of all steps of the piece.
    """
    metric, piece = folded.metric, folded.piece
    begin = np.flatnonzero(np.diff(piece, prepend=-1))
    end = np.append(begin[1:], len(piece))
    of_stretch = folded.stretch[begin]
    is_first = np.diff(of_stretch, prepend=-1) != 0
    is_last = np.append(is_first[1:], True)[: len(begin)]
    picked = np.flatnonzero(is_first | is_last)
    begin, end = begin[picked], end[picked]
    first = np.searchsorted(folded.piece_of_point, picked, side="left")
    behind = np.searchsorted(folded.piece_of_point, picked, side="right")
    empty = behind == first
    total = _picked(folded.locals, behind - 1, empty | ~_at(folded.fits, behind - 1, empty))
    if not metric.kind.is_extreme:
        total = pc.if_else(pa.array(empty), pa.scalar(0, total.type), total)
    point_us = history.event_us[folded.rows]
    return {
        "channel": history.channels.take(pa.array(history.channel[begin])),
        "segment_us": history.segment_us[begin],
        "piece": (~is_first[picked]).astype(np.int64),
        "readings": end - begin,
        "first_reset": history.texts(metric.reset_on, begin),
        "last_reset": history.texts(metric.reset_on, end - 1),
        "reset_us": _picked(history.event_us, end, is_last[picked] | ~is_first[picked]),
        "points": behind - first,
        "total": total,
        "first_us": _picked(point_us, first, empty),
        "first": _picked(folded.values, first, empty),
        "first_break": _break_texts(history, folded, first, empty),
        "last_us": _picked(point_us, behind - 1, empty),
        "last": _picked(folded.values, behind - 1, empty),
        "last_break": _break_texts(history, folded, behind - 1, empty),
        "magnitude": pc.fill_null(_picked(folded.sizes, behind - 1, empty), 0.0),
    }


def segment_ends(history: History, folded: Folded) -> dict[str, Any]:
    """Columns of what the fold has come to at the last reading of each segment and channel."""
    last = np.append(np.flatnonzero(history.begins_segment)[1:], len(history.event_us)) - 1
    own_piece = folded.piece[last]
    behind = np.searchsorted(folded.rows, last, side="right")
    first = np.searchsorted(folded.piece_of_point, own_piece, side="left")
    empty = behind <= first
    first_piece = np.flatnonzero(np.diff(folded.stretch, prepend=-1))
    return {
        "channel": history.channels.take(pa.array(history.channel[last])),
        "segment_us": history.segment_us[last],
        # What came before the stretch counts for its first piece alone.
        "continues": own_piece == folded.piece[first_piece][folded.stretch[last]],
        "local": _picked(folded.locals, behind - 1, empty | ~_at(folded.fits, behind - 1, empty)),
        "local_magnitude": pc.fill_null(_picked(folded.sizes, behind - 1, empty), 0.0),
    }


def _at(values: NDArray[np.bool_], indices: NDArray[np.int64], absent: NDArray[np.bool_]) -> Any:
    return values[np.where(absent, 0, indices)] if len(values) else ~absent


def _picked(values: NDArray[Any], indices: NDArray[np.int64], absent: NDArray[np.bool_]) -> pa.Array[Any]:
    if not len(values):
        return pa.nulls(len(indices), pa.from_numpy_dtype(values.dtype))
    return pa.array(values[np.where(absent, 0, indices)], mask=absent)


def _break_texts(
    history: History, folded: Folded, indices: NDArray[np.int64], absent: NDArray[np.bool_]
) -> pa.Array[Any]:
    names = folded.metric.break_on
    if not names or not len(folded.rows):
        return pa.nulls(len(indices), pa.string())
    texts = history.texts(names, folded.rows[np.where(absent, 0, indices)])
    return pc.if_else(pa.array(absent), pa.scalar(None, pa.string()), texts)
