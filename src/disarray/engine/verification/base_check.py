"""The kernel that chains the summaries of one subject: bases bit for bit, and whole histories to within rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disarray.engine.verification.bases import SERIES_ORDER, link, linked_columns, number_kind
from disarray.engine.verification.comparison import (
    BASES,
    MAX_LISTED,
    PRIORS,
    SUMMARIES,
    Difference,
    differences,
)
from disarray.engine.verification.range_check import (
    END_FIELDS,
    SUMMARY_FIELDS,
    is_recomputed,
    summary_files,
)
from disarray.engine.verification.stored_rows import StoredRows, StoredRowsReader
from disarray.model.description.metrics import MetricKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.engine.verification.selection import Selection
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric

# Of the sum of the sizes of all steps: the brackets differ, and nothing else may.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectChain:
    """All summaries of one subject: those recomputed, by row group of scratch files, and those stored."""

    subject_key: str
    recomputed: tuple[tuple[str, int], ...]  # in the order of ranges
    stored: StoredRows | None
    sealed: frozenset[int]
    selection: Selection
    stale_from_us: int | None
    block_us: int | None  # how long its blocks of segments are

    @property
    def weight(self) -> int:
        """How much work it is, about."""
        return len(self.recomputed) + (0 if self.stored is None else len(self.stored.row_groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTask:
    """Subjects of one dataset."""

    dataset: Dataset
    chains: tuple[SubjectChain, ...]


@dataclass(frozen=True, slots=True)
class CheckedChains:
    """How many summaries are stored, and what differs."""

    bases: int
    differences: tuple[Difference, ...]


def check_bases(task: ChainTask) -> CheckedChains:
    """Compare summaries and bases of subjects one after the other."""
    reader = StoredRowsReader()
    bases, found = 0, []
    for chain in task.chains:
        stored = SUMMARIES.schema.empty_table()
        if chain.stored is not None:
            stored = reader.read(chain.stored, SUMMARIES, subject_key=chain.subject_key)
        bases += stored.num_rows
        found += _check_chain(chain, stored, task.dataset)
    reader.close()
    return CheckedChains(bases, tuple(found))


def _check_chain(chain: SubjectChain, stored: pa.Table, dataset: Dataset) -> list[Difference]:
    segments, ranges, ends = (
        _read([(summary_files(path)[number], row_group) for path, row_group in chain.recomputed], schema)
        for number, schema in enumerate((SUMMARY_FIELDS, SUMMARY_FIELDS, END_FIELDS))
    )
    is_whole = not chain.sealed and chain.selection.is_everything
    if not is_whole:
        # Taken as they are stored: what is right of them has to follow from them.
        believed = ~is_recomputed(stored, chain.subject_key, chain.sealed, chain.selection, dataset)
        segments = pa.concat_tables([segments, _as_recomputed(stored.filter(pa.array(believed)))])
    linked = [SUMMARIES.schema.empty_table()]
    histories = []
    for metric in dataset.metrics:
        own = _of(segments, metric).sort_by(SERIES_ORDER)
        linked.append(
            linked_columns(own, link(own, metric, block_us=chain.block_us), metric).select(
                SUMMARIES.schema.names
            )
        )
        if is_whole:
            histories += _history_differences(chain, metric, stored, ranges, ends, dataset=dataset)
    recomputed = pa.concat_tables(linked)
    found = differences(
        _final(stored, chain, dataset),
        _final(recomputed, chain, dataset),
        SUMMARIES,
        dataset=dataset.name,
        what="metric",
    )
    return [*found, *histories[:MAX_LISTED]]


def _history_differences(
    chain: SubjectChain,
    metric: Metric,
    stored: pa.Table,
    ranges: pa.Table,
    ends: pa.Table,
    *,
    dataset: Dataset,
) -> list[Difference]:
    """Where the value at the end of a segment is not the one of the whole history; missing rows are told elsewhere."""
    kind = number_kind(metric)
    own = _of(stored, metric).sort_by(SERIES_ORDER)
    last = own.filter(pa.array(_is_last(own)))
    if chain.stale_from_us is not None:
        last = last.filter(pa.array(~_is_stale(last, chain.stale_from_us, dataset)))
    history = _history(metric, ranges, ends)
    keys = ["channel", "segment_us"]
    base, total = f"base_{kind}", f"total_{kind}"
    joined = last.select([*keys, base, total]).join(history, keys, join_type="inner", use_threads=False)
    joined = joined.sort_by([(name, "ascending") for name in keys])
    stored_value = _joined(metric, joined.column(base), joined.column(total))
    value = joined.column("value")
    is_null = pc.and_(pc.is_null(stored_value), pc.is_null(value))
    if kind == "int":
        agrees = pc.equal(stored_value, value)
    else:
        gap = pc.abs(pc.subtract(stored_value, value))
        agrees = pc.less_equal(gap, pc.multiply(joined.column("magnitude"), TOLERANCE))
    is_right = pc.or_(is_null, pc.fill_null(agrees, False)).to_numpy()
    return [
        Difference(
            dataset=dataset.name,
            subject_key=chain.subject_key,
            what="metric over the whole history",
            name=metric.name,
            channel=joined.column("channel")[row].as_py(),
            segment_us=joined.column("segment_us")[row].as_py(),
            stored=stored_value[row].as_py(),
            recomputed=value[row].as_py(),
        )
        for row in np.flatnonzero(~is_right)[:MAX_LISTED].tolist()
    ]


def _history(metric: Metric, ranges: pa.Table, ends: pa.Table) -> pa.Table:
    """By channel and segment: the value at its last reading, by folds over whole ranges, and how far it may be off."""
    kind = number_kind(metric)
    own = _of(ranges, metric).sort_by(SERIES_ORDER)
    linked = link(own, metric)
    is_first = pc.equal(own.column("piece"), 0)
    before = pa.table(
        {
            "channel": own.column("channel"),
            "range_number": own.column("range_number"),
            "base": linked.base,
            "before": linked.before,
            "magnitude_before": linked.magnitude_before,
        }
    ).filter(is_first)
    joined = _of(ends, metric).join(
        before, ["channel", "range_number"], join_type="left outer", use_threads=False
    )
    local, continues = joined.column(f"local_{kind}"), joined.column("continues")
    base = pc.if_else(continues, joined.column("base"), pa.scalar(None, joined.schema.field("base").type))
    if metric.kind.is_extreme:
        value = _joined(metric, base, local)
    else:
        # Before its first point a range has what came before it, without the step to that point.
        carried = pc.if_else(continues, joined.column("before"), pa.scalar(0, base.type))
        value = pc.coalesce(pc.add(pc.fill_null(base, 0), local), carried)
    magnitude = pc.add(
        pc.if_else(continues, joined.column("magnitude_before"), 0.0), joined.column("local_magnitude")
    )
    return pa.table(
        {
            "channel": joined.column("channel"),
            "segment_us": joined.column("segment_us"),
            "value": value,
            "magnitude": magnitude,
        }
    )


def _joined(metric: Metric, base: Any, total: Any) -> Any:
    match metric.kind:
        case MetricKind.MIN:
            return pc.min_element_wise(base, total, skip_nulls=True)
        case MetricKind.MAX:
            return pc.max_element_wise(base, total, skip_nulls=True)
        case MetricKind.SUM | MetricKind.COUNT | MetricKind.INTEGRAL | MetricKind.INCREASE:
            return pc.add(base, total)
        case _:
            assert_never(metric.kind)


def _final(summaries: pa.Table, chain: SubjectChain, dataset: Dataset) -> pa.Table:
    """The summaries without the bases that are known to be stale."""
    if chain.stale_from_us is None:
        return summaries
    is_stale = pa.array(_is_stale(summaries, chain.stale_from_us, dataset))
    for name in (*BASES, *PRIORS):
        number = summaries.schema.get_field_index(name)
        nothing = pa.scalar(None, summaries.schema.field(name).type)
        kept = pc.if_else(is_stale, nothing, summaries.column(name))
        summaries = summaries.set_column(number, name, kept)
    return summaries


def _is_stale(summaries: pa.Table, stale_from_us: int, dataset: Dataset) -> NDArray[np.bool_]:
    ends_us = summaries.column("segment_us").to_numpy() + dataset.segment_length_us
    found: NDArray[np.bool_] = ends_us > stale_from_us
    return found


def _is_last(summaries: pa.Table) -> NDArray[np.bool_]:
    """By summary, in order: whether it is of the last piece of its channel and segment."""
    channel = summaries.column("channel").combine_chunks().dictionary_encode().indices.to_numpy()
    segment_us = summaries.column("segment_us").to_numpy()
    found = np.ones(len(channel), dtype=np.bool_)
    found[:-1] = (channel[1:] != channel[:-1]) | (segment_us[1:] != segment_us[:-1])
    return found


def _as_recomputed(stored: pa.Table) -> pa.Table:
    rows = stored.num_rows
    own = {"magnitude": pa.repeat(0.0, rows), "range_number": pa.nulls(rows, pa.int64())}
    return pa.table(
        [own[name] if name in own else stored.column(name) for name in SUMMARY_FIELDS.names],
        schema=SUMMARY_FIELDS,
    )


def _of(table: pa.Table, metric: Metric) -> pa.Table:
    return table.filter(pc.equal(table.column("metric"), metric.name))


def _read(row_groups: Sequence[tuple[str, int]], schema: pa.Schema) -> pa.Table:
    tables = [schema.empty_table()]
    opened: dict[str, pq.ParquetFile] = {}
    for path, number in row_groups:
        if path not in opened:
            opened[path] = pq.ParquetFile(path)
        tables.append(opened[path].read_row_group(number, use_threads=False))
    for file in opened.values():
        file.close()
    return pa.concat_tables(tables)
