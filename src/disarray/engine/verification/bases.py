"""What each piece of a history continues from: junctions and bases from summaries, one fold for each island.

An island is a run of pieces of one channel without a reset between them. The same code chains segments, which gives
what the catalog keeps, and ranges of segments, which gives the values of a whole history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.engine.verification.canonical_order import ranks
from disarray.engine.verification.grouped_folds import fold_groups
from disarray.engine.verification.metrics import FOLDS, area_between, increase_between
from disarray.model.description.format import ColumnType
from disarray.model.description.metrics import MetricKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disarray.model.description.metrics import Metric

SERIES_ORDER = [("channel", "ascending"), ("segment_us", "ascending"), ("piece", "ascending")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """By summary, in the order of channel, time and piece."""

    prior: NDArray[np.int64]  # the last one before it that has points, in its island; -1 for none
    base: pa.Array[Any]
    before: pa.Array[Any]
    magnitude_before: NDArray[
        np.float64
    ]  # the sizes of all steps of the island up to its own, its junction among them


def number_kind(metric: Metric) -> str:
    """Which columns of a summary hold its numbers."""
    return "int" if metric.type is ColumnType.INT64 else "float"


def link(summaries: pa.Table, metric: Metric) -> Linked:
    """Chain the summaries of one metric, sorted by SERIES_ORDER."""
    count = summaries.num_rows
    begins = _island_begins(summaries)
    index = np.arange(count)
    island = np.maximum.accumulate(np.where(begins, index, 0)) if count else index
    has_points = summaries.column("points").to_numpy() > 0
    latest = np.maximum.accumulate(np.where(has_points, index, -1)) if count else index
    prior = np.concatenate([[-1], latest[:-1]])[:count]
    prior = np.where(prior >= island, prior, -1)
    total, has_total = _numbers(summaries, f"total_{number_kind(metric)}")
    former, has_former = _shifted(total), _shifted(has_total) & ~begins
    starts = np.flatnonzero(begins)
    with np.errstate(all="ignore"):
        junction = _junctions(summaries, metric, prior)
        magnitude = _shifted(_numbers(summaries, "magnitude")[0])
        sizes = np.where(begins, 0.0, magnitude + np.abs(junction.astype(np.float64)))
        magnitude_before, _ = fold_groups(np.add, sizes, starts)
        if metric.kind.is_extreme:
            base, is_there = _running_extreme(metric, former, has_former, starts)
            before = base
        else:
            element = np.where(begins, np.zeros_like(total), former + junction)
            base, is_there = fold_groups(np.add, element, starts)
            before = np.where(begins, base, _shifted(base) + former)
    return Linked(
        prior=prior,
        base=pa.array(base, mask=~is_there),
        before=pa.array(before, mask=~is_there),
        magnitude_before=magnitude_before,
    )


def linked_columns(summaries: pa.Table, linked: Linked, metric: Metric) -> pa.Table:
    """The summaries with `prior_…`, `base_…` and `before_…` as the catalog has them."""
    kind = number_kind(metric)
    other = "float" if kind == "int" else "int"
    prior = pa.array(linked.prior, mask=linked.prior < 0)
    types = {"float": pa.float64(), "int": pa.int64()}
    for name in ("us", "float", "int", "break"):
        summaries = summaries.append_column(f"prior_{name}", summaries.column(f"last_{name}").take(prior))
    for name, values in (("base", linked.base), ("before", linked.before)):
        summaries = summaries.append_column(f"{name}_{kind}", values)
        summaries = summaries.append_column(f"{name}_{other}", pa.nulls(len(values), types[other]))
    return summaries


def _island_begins(summaries: pa.Table) -> NDArray[np.bool_]:
    count = summaries.num_rows
    begins = np.ones(count, dtype=np.bool_)
    channel = ranks(summaries.column("channel"))
    resets = ranks(
        pa.chunked_array(
            [*summaries.column("first_reset").chunks, *summaries.column("last_reset").chunks], pa.string()
        )
    )
    first, last = resets[:count], resets[count:]
    is_later_piece = summaries.column("piece").to_numpy() == 1
    begins[1:] = (channel[1:] != channel[:-1]) | is_later_piece[1:] | (first[1:] != last[:-1])
    return begins


def _junctions(summaries: pa.Table, metric: Metric, prior: NDArray[np.int64]) -> NDArray[Any]:
    """The step from the last point before a piece to its first one; 0 where there is none."""
    kind = number_kind(metric)
    first, _ = _numbers(summaries, f"first_{kind}")
    first_us, has_first = _numbers(summaries, "first_us")
    none = np.zeros_like(first)
    if metric.kind not in (MetricKind.INCREASE, MetricKind.INTEGRAL) or not len(prior):
        return none
    earlier = _numbers(summaries, f"last_{kind}")[0][prior]
    if metric.kind is MetricKind.INCREASE:
        step, _ = increase_between(earlier, first)
    else:
        assert metric.max_gap_us is not None
        elapsed_us = first_us - _numbers(summaries, "last_us")[0][prior]
        breaks = ranks(
            pa.chunked_array(
                [*summaries.column("first_break").chunks, *summaries.column("last_break").chunks], pa.string()
            )
        )
        is_unbroken = breaks[: len(prior)] == breaks[len(prior) :][prior]
        area = area_between(metric.method, earlier, first, elapsed_us)
        step = np.where((elapsed_us <= metric.max_gap_us) & is_unbroken, area, 0.0)
    return np.where((prior >= 0) & has_first, step, none)


def _running_extreme(
    metric: Metric, former: NDArray[Any], has_former: NDArray[np.bool_], starts: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The extreme of all that came before; there is none as long as nothing had a point."""
    is_float = former.dtype == np.float64
    limits = (-np.inf, np.inf) if is_float else (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
    worst = limits[0] if metric.kind is MetricKind.MAX else limits[1]
    running, _ = fold_groups(FOLDS[metric.kind], np.where(has_former, former, worst), starts)
    seen, _ = fold_groups(np.maximum, has_former.astype(np.int64), starts)
    return running, seen > 0


def _numbers(table: pa.Table, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    column = table.column(name)
    is_there = pc.is_valid(column).to_numpy()
    return pc.fill_null(column, 0).to_numpy(), is_there


def _shifted(values: NDArray[Any]) -> NDArray[Any]:
    """By row what stands in the row before it; nothing that counts in the first."""
    found = np.zeros_like(values)
    found[1:] = values[:-1]
    return found
