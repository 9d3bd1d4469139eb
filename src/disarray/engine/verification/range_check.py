"""The kernel that recomputes a range of segments of one subject, and compares it with what is stored.

A range is some neighbouring segments, few enough for the memory of a task. What lies between ranges, the bases, is
chained from the summaries that are written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disarray.engine.verification.bases import number_kind
from disarray.engine.verification.canonical_order import canonical_rows
from disarray.engine.verification.comparison import MAX_LISTED, ROLLUP_PARTS, SEGMENTS, differences
from disarray.engine.verification.file_readings import Contribution, FileReadings
from disarray.engine.verification.history import History
from disarray.engine.verification.metrics import fold_metric, segment_ends, summary_rows
from disarray.engine.verification.rollups import rollup_parts
from disarray.engine.verification.stored_rows import StoredRows, StoredRowsReader
from disarray.kernels.parsing.readings import readings_schema
from disarray.kernels.scanning.digests import digest_readings
from disarray.model.description.format import EVENT_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disarray.engine.verification.comparison import Difference
    from disarray.engine.verification.selection import Selection
    from disarray.model.description.dataset import Dataset

_NUMBERS = {"float": pa.float64(), "int": pa.int64()}
SUMMARY_FIELDS = pa.schema(
    [
        *((name, pa.string()) for name in ("subject_key", "metric", "channel")),
        *(
            (name, pa.int64())
            for name in ("segment_us", "piece", "readings", "points", "first_us", "last_us", "reset_us")
        ),
        *((name, pa.string()) for name in ("first_break", "last_break", "first_reset", "last_reset")),
        *(
            (f"{name}_{kind}", type_)
            for name in ("total", "first", "last")
            for kind, type_ in _NUMBERS.items()
        ),
        ("magnitude", pa.float64()),
        ("range_number", pa.int64()),
    ]
)
END_FIELDS = pa.schema(
    [
        *((name, pa.string()) for name in ("metric", "channel")),
        ("segment_us", pa.int64()),
        ("continues", pa.bool_()),
        *((f"local_{kind}", type_) for kind, type_ in _NUMBERS.items()),
        ("local_magnitude", pa.float64()),
        ("range_number", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """Segments of one subject from `start_us` on, before `end_us`: what they are made from, and what is stored."""

    subject_key: str
    number: int
    start_us: int | None
    end_us: int | None
    readings: int  # about so many
    contributions: tuple[Contribution, ...]
    segments: tuple[
        tuple[int, str, int], ...
    ]  # start, digest, readings; those that are sealed are not among them
    rollup_rows: StoredRows | None
    sealed: frozenset[int]
    selection: Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeTask:
    """Ranges of one dataset, and the files that their summaries go to."""

    dataset: Dataset
    ranges: tuple[SegmentRange, ...]
    scratch_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRange:
    """What was found out about a range; its summaries are row groups of this number."""

    subject_key: str
    row_group: int
    rollup_parts: int
    summaries: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRanges:
    """What was found out about the ranges of a task, and the beginning of the names of its files."""

    scratch_file: str
    ranges: tuple[CheckedRange, ...]


def check_ranges(task: RangeTask) -> CheckedRanges:
    """Recompute ranges one after the other, and compare all but bases."""
    files, stored = FileReadings(readings_schema(task.dataset.read_spec())), StoredRowsReader()
    checked = []
    with _SummaryWriter(task.scratch_file) as writer:
        for number, each in enumerate(task.ranges):
            found = [*_check_readings(files, each, task.dataset)]
            history = _recompute(files, each, task.dataset, found)
            summaries = writer.write(history, each)
            parts = 0
            if task.dataset.rollups:
                parts = _check_rollups(history, each, stored, found)
            checked.append(
                CheckedRange(
                    subject_key=each.subject_key,
                    row_group=number,
                    rollup_parts=parts,
                    summaries=summaries,
                    differences=tuple(found),
                )
            )
    stored.close()
    return CheckedRanges(scratch_file=task.scratch_file, ranges=tuple(checked))


def _check_readings(files: FileReadings, own: SegmentRange, dataset: Dataset) -> list[Difference]:
    found = files.load(own.contributions, dataset=dataset, subject_key=own.subject_key)
    return sorted(found, key=lambda each: (each.what, each.segment_us or 0, each.name))[:MAX_LISTED]


def _recompute(files: FileReadings, own: SegmentRange, dataset: Dataset, found: list[Difference]) -> History:
    """The readings that count; segments are compared on the way."""
    readings, numbers = files.readings()
    marks = files.marks()
    rows = canonical_rows(
        readings,
        numbers,
        dataset,
        contents=np.unique([mark.content_hash for mark in marks], return_inverse=True)[1].reshape(-1),
        arrivals=np.array([mark.arrival for mark in marks], dtype=np.int64),
    )
    ordered = readings.take(pa.array(rows)) if not _is_identity(rows, readings) else readings
    found += _check_segments(ordered, own, dataset)
    return History.of(ordered, dataset, own.subject_key)


def _is_identity(rows: NDArray[np.int64], readings: pa.Table) -> bool:
    return len(rows) == readings.num_rows and bool((np.diff(rows) == 1).all())


def _check_segments(ordered: pa.Table, own: SegmentRange, dataset: Dataset) -> list[Difference]:
    event_us = ordered.column(EVENT_US).to_numpy()
    segment_us = event_us - event_us % dataset.segment_length_us
    is_first = np.ones(len(segment_us), dtype=np.bool_)
    is_first[1:] = segment_us[1:] != segment_us[:-1]
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], len(segment_us))[: len(starts)]
    recomputed = [
        (
            own.subject_key,
            int(segment_us[start]),
            digest_readings(ordered.slice(start, end - start)),
            int(end - start),
        )
        for start, end in zip(starts, ends, strict=True)
    ]
    stored = [(own.subject_key, *row) for row in own.segments]
    tables = [
        pa.Table.from_pylist(
            [dict(zip(SEGMENTS.schema.names, row, strict=True)) for row in rows], SEGMENTS.schema
        )
        for rows in (stored, recomputed)
    ]
    return differences(tables[0], tables[1], SEGMENTS, dataset=dataset.name, what="segment")


def _check_rollups(
    history: History, own: SegmentRange, stored: StoredRowsReader, found: list[Difference]
) -> int:
    rows = ROLLUP_PARTS.schema.empty_table()
    if own.rollup_rows is not None:
        rows = stored.read(
            own.rollup_rows,
            ROLLUP_PARTS,
            subject_key=own.subject_key,
            start_us=own.start_us,
            end_us=own.end_us,
        )
        rows = rows.filter(
            pa.array(is_recomputed(rows, own.subject_key, own.sealed, own.selection, history.dataset))
        )
    recomputed = rollup_parts(history, own.subject_key)
    found += differences(rows, recomputed, ROLLUP_PARTS, dataset=history.dataset.name, what="rollup")
    return int(rows.num_rows)


def is_recomputed(
    rows: pa.Table, subject_key: str, sealed: frozenset[int], selection: Selection, dataset: Dataset
) -> NDArray[np.bool_]:
    """By row of the catalog: whether its segment is neither sealed nor left out."""
    segments_us = rows.column("segment_us").to_numpy()
    taken = selection.taken(subject_key, segments_us, length_us=dataset.segment_length_us)
    return taken & ~np.isin(segments_us, np.array(sorted(sealed), dtype=np.int64))


class _SummaryWriter:
    """The summaries of segments, of ranges, and what folds over ranges come to: one row group a range in each file."""

    def __init__(self, scratch_file: str) -> None:
        self._scratch_file = scratch_file
        self._writers: list[pq.ParquetWriter] = []

    def __enter__(self) -> Self:
        self._writers = [
            pq.ParquetWriter(path, schema)
            for path, schema in zip(
                summary_files(self._scratch_file), (SUMMARY_FIELDS, SUMMARY_FIELDS, END_FIELDS), strict=True
            )
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()

    def write(self, history: History, own: SegmentRange) -> int:
        """Fold every metric twice, by segment and over the range; how many summaries of segments there are."""
        shared = {"subject_key": own.subject_key, "range_number": own.number}
        tables: list[list[pa.Table]] = [[], [], []]
        for metric in history.dataset.metrics if len(history.event_us) else ():
            by_segment = fold_metric(history, metric, history.begins_segment)
            over_range = fold_metric(history, metric, history.begins_channel)
            columns = (
                summary_rows(history, by_segment),
                summary_rows(history, over_range),
                segment_ends(history, over_range),
            )
            kind = number_kind(metric)
            for found, each, schema in zip(
                tables, columns, (SUMMARY_FIELDS, SUMMARY_FIELDS, END_FIELDS), strict=True
            ):
                found.append(_table({**shared, **each, "metric": metric.name}, kind, schema))
        for writer, found, schema in zip(
            self._writers, tables, (SUMMARY_FIELDS, SUMMARY_FIELDS, END_FIELDS), strict=True
        ):
            table = pa.concat_tables([schema.empty_table(), *found]).combine_chunks()
            writer.write_table(table, row_group_size=max(1, table.num_rows))
        return sum(table.num_rows for table in tables[0])


def summary_files(scratch_file: str) -> tuple[str, str, str]:
    """Where the summaries of segments, those of ranges, and the ends of segments lie."""
    return (
        f"{scratch_file}-segments.parquet",
        f"{scratch_file}-ranges.parquet",
        f"{scratch_file}-ends.parquet",
    )


def _table(columns: dict[str, Any], kind: str, schema: pa.Schema) -> pa.Table:
    rows = len(columns["channel"])
    arrays = []
    for each in schema:
        name = each.name.removesuffix(f"_{kind}") if each.name.endswith(f"_{kind}") else each.name
        value = columns.get(name)
        if value is None:
            arrays.append(pa.nulls(rows, each.type))
        elif isinstance(value, str | int):
            arrays.append(pa.repeat(pa.scalar(value, each.type), rows))
        else:
            arrays.append(value if isinstance(value, pa.Array) else pa.array(value, each.type))
    return pa.table(arrays, schema=schema)
