"""What each piece of a history continues from: junctions and bases from summaries, one fold for each island.

An island is a run of pieces of one channel without a reset between them. The same code chains segments, which gives
what the catalog keeps (there each block of segments is folded from its own beginning, and its base added to all of it),
and ranges of segments, which gives the values of a whole history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.engine.verification.canonical_order import ranks
from disarray.engine.verification.grouped_folds import fold_groups
from disarray.engine.verification.metric_kinds import ADDS_STEPS, FOLDS, Pairs, steps_between
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folds:
    """By summary: base and value before it, where there is one."""

    base: NDArray[Any]
    has_base: NDArray[np.bool_]
    before: NDArray[Any]
    has_before: NDArray[np.bool_]


def link(summaries: pa.Table, metric: Metric, *, block_us: int | None = None) -> Linked:
    """Chain the summaries of one metric, sorted by SERIES_ORDER; with a length of blocks, block by block."""
    count = summaries.num_rows
    begins = _island_begins(summaries)
    index = np.arange(count)
    island = np.maximum.accumulate(np.where(begins, index, 0)) if count else index
    has_points = summaries.column("points").to_numpy() > 0
    latest = np.maximum.accumulate(np.where(has_points, index, -1)) if count else index
    prior = np.concatenate([[-1], latest[:-1]])[:count]
    prior = np.where(prior >= island, prior, -1)
    total, has_total = _numbers(summaries, f"total_{number_kind(metric)}")
    with np.errstate(all="ignore"):
        junction = _junctions(summaries, metric, prior)
        magnitude = _shifted(_numbers(summaries, "magnitude")[0])
        sizes = np.where(begins, 0.0, magnitude + np.abs(junction.astype(np.float64)))
        magnitude_before, _ = fold_groups(np.add, sizes, np.flatnonzero(begins))
        if block_us is None or not count:
            folds = _fold(metric, total, has_total, junction, begins)
        else:
            blocks = _Blocks.of(summaries, metric, block_us=block_us, begins=begins, prior=prior)
            folds = blocks.fold(total, has_total, junction)
    return Linked(
        prior=prior,
        base=pa.array(folds.base, mask=~folds.has_base),
        before=pa.array(folds.before, mask=~folds.has_before),
        magnitude_before=magnitude_before,
    )


def _fold(
    metric: Metric,
    total: NDArray[Any],
    has_total: NDArray[np.bool_],
    junction: NDArray[Any],
    begins: NDArray[np.bool_],
) -> _Folds:
    starts = np.flatnonzero(begins)
    former, has_former = _shifted(total), _shifted(has_total) & ~begins
    if metric.kind.is_extreme:
        base, is_there = _running_extreme(metric, former, has_former, starts)
        return _Folds(base=base, has_base=is_there, before=base, has_before=is_there)
    element = np.where(begins, np.zeros_like(total), former + junction)
    base, is_there = fold_groups(np.add, element, starts)
    before = np.where(begins, base, _shifted(base) + former)
    return _Folds(base=base, has_base=is_there, before=before, has_before=is_there)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """Where blocks begin in summaries that are in the order of series, and what of them their bases reach."""

    metric: Metric
    starts: NDArray[np.int64]
    begins: NDArray[np.bool_]  # by summary: an island, or a block
    is_new: NDArray[np.bool_]  # by block: an island begins with it
    is_reached: NDArray[np.bool_]  # by summary: no reset since its block began
    first_point: NDArray[np.int64]  # by block, of what is reached; -1 for none
    has_earlier: NDArray[np.bool_]  # by summary: a point of its block and island lies before it
    has_points: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        summaries: pa.Table,
        metric: Metric,
        *,
        block_us: int,
        begins: NDArray[np.bool_],
        prior: NDArray[np.int64],
    ) -> _Blocks:
        index = np.arange(len(begins))
        number = summaries.column("segment_us").to_numpy() // block_us
        channel = ranks(summaries.column("channel"))
        opens = np.ones(len(begins), dtype=np.bool_)
        opens[1:] = (number[1:] != number[:-1]) | (channel[1:] != channel[:-1])
        starts = np.flatnonzero(opens)
        of_block = np.cumsum(opens) - 1
        resets = np.cumsum(begins & ~opens)
        is_reached = resets == resets[starts][of_block]
        has_points = summaries.column("points").to_numpy() > 0
        places = np.where(is_reached & has_points, index, len(index))
        first_point = np.minimum.reduceat(places, starts)
        return cls(
            metric=metric,
            starts=starts,
            begins=begins | opens,
            is_new=begins[starts],
            is_reached=is_reached,
            first_point=np.where(first_point < len(index), first_point, -1),
            has_earlier=prior >= starts[of_block],
            has_points=has_points,
        )

    def fold(self, total: NDArray[Any], has_total: NDArray[np.bool_], junction: NDArray[Any]) -> _Folds:
        """Each block from its own beginning, then the base of the block before what lies between."""
        own = _fold(self.metric, total, has_total, np.where(self.has_earlier, junction, 0), self.begins)
        ends = np.append(self.starts[1:], len(total)) - 1
        block = np.zeros((2, len(self.starts)), dtype=total.dtype)  # base, before
        has_block = np.zeros(len(self.starts), dtype=np.bool_)
        base, has_base = own.base[0], False
        for at, (start, end) in enumerate(zip(self.starts.tolist(), ends.tolist(), strict=True)):
            if self.is_new[at]:
                has_base = not self.metric.kind.is_extreme
                base = total.dtype.type(0)
                block[:, at], has_block[at] = base, has_base
            else:
                last = start - 1
                before, has_base = self._joined(base, has_base, total[last], has_total[last])
                step = junction[self.first_point[at]] if self.first_point[at] >= 0 else junction.dtype.type(0)
                is_sum = not self.metric.kind.is_extreme
                base = base + (total[last] + step) if is_sum else before
                block[:, at], has_block[at] = (base, before), has_base
            if self.is_reached[end]:
                base, has_base = self._joined(base, has_base, own.base[end], own.has_base[end])
            else:
                base, has_base = own.base[end], bool(own.has_base[end])
        lengths = np.diff(self.starts, append=len(total))
        bases, befores, has_blocks = (np.repeat(each, lengths) for each in (*block, has_block))
        return _Folds(
            **self._reached(
                "base", np.where(self.has_points | self.has_earlier, bases, befores), has_blocks, own
            ),
            **self._reached("before", np.where(self.has_earlier, bases, befores), has_blocks, own),
        )

    def _reached(
        self, name: str, ground: NDArray[Any], has_ground: NDArray[np.bool_], own: _Folds
    ) -> dict[str, NDArray[Any]]:
        offset, has_offset = getattr(own, name), getattr(own, f"has_{name}")
        joined, is_there = self._joined(ground, has_ground, offset, has_offset)
        return {
            name: np.where(self.is_reached, joined, offset),
            f"has_{name}": np.where(self.is_reached, is_there, has_offset),
        }

    def _joined(self, left: Any, has_left: Any, right: Any, has_right: Any) -> tuple[Any, Any]:
        if not self.metric.kind.is_extreme:
            return left + right, has_left & has_right
        extreme = FOLDS[self.metric.kind](left, right)
        return np.where(has_left & has_right, extreme, np.where(has_left, left, right))[
            ()
        ], has_left | has_right


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
    if not ADDS_STEPS[metric.kind] or not len(prior):
        return none
    breaks = ranks(
        pa.chunked_array(
            [*summaries.column("first_break").chunks, *summaries.column("last_break").chunks], pa.string()
        )
    )
    pairs = Pairs(
        earlier=_numbers(summaries, f"last_{kind}")[0][prior],
        later=first,
        elapsed_us=first_us - _numbers(summaries, "last_us")[0][prior],
        is_broken=breaks[: len(prior)] != breaks[len(prior) :][prior],
    )
    step, _ = steps_between(metric, pairs)
    return np.where((prior >= 0) & has_first, step, none)


def _running_extreme(
    metric: Metric, former: NDArray[Any], has_former: NDArray[np.bool_], starts: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The extreme of all that came before; there is none as long as nothing had a point."""
    is_float = former.dtype == np.float64
    limits = (-np.inf, np.inf) if is_float else (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
    worst = {MetricKind.MAX: limits[0], MetricKind.MIN: limits[1]}[metric.kind]
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
