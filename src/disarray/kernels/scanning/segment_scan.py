"""One segment from its fragments: the unit of work of a scan, from Arrow tables to small Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from disarray.errors import FragmentMismatchError
from disarray.kernels.scanning.digests import digest_readings
from disarray.kernels.scanning.folds import fold_metric
from disarray.kernels.scanning.merging import merge_fragments
from disarray.kernels.scanning.restated import FoldedSegment
from disarray.kernels.scanning.rollups import ROLLUP_SCHEMA, roll_up
from disarray.kernels.scanning.running_values import local_values
from disarray.kernels.scanning.series import Series
from disarray.kernels.scanning.summaries import SUMMARY_SCHEMA, summarize
from disarray.model.description.format import EVENT_US
from disarray.model.segments import datetime_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.kernels.scanning.merging import Merged
    from disarray.kernels.scanning.running_values import Locals
    from disarray.kernels.scanning.segment_rows import FragmentInput
    from disarray.model.description.scan_spec import ScanSpec
    from disarray.model.segments import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """All that a commit needs to know about a scanned segment."""

    segment: Segment
    readings: int  # winners
    first_us: int | None  # of the winners; None without any
    last_us: int | None
    duplicates: int
    conflicts: int
    conflict_list: pa.Table  # CONFLICT_SCHEMA
    conflict_pairs: tuple[tuple[str, str, int], ...]  # uri of the winner, uri of the loser, how many
    digest: str
    summaries: pa.Table  # SUMMARY_SCHEMA
    rollup_parts: pa.Table  # ROLLUP_SCHEMA
    folded: FoldedSegment
    kept: KeptReadings | None = None


@dataclass(frozen=True, slots=True)
class KeptReadings:
    """The readings of a scanned segment themselves, and the fold of each metric at every one of them."""

    merged: Merged
    locals: Mapping[str, Locals]


def scan_segment(
    segment: Segment, fragments: Sequence[FragmentInput], spec: ScanSpec, *, keep_readings: bool = False
) -> ScanResult:
    """Merge the fragments of one segment and fold what they say; the order of fragments leaves no trace."""
    merged = merge_fragments(fragments, spec)
    series = series_of(segment, merged, spec)
    summaries, kept = [], {}
    folds = {metric.name: fold_metric(series, metric) for metric in spec.metrics}
    for metric in spec.metrics:
        fold = folds[metric.name]
        summaries.append(summarize(series, fold, segment_us=segment.start_us))
        if keep_readings:
            kept[metric.name] = local_values(series, fold)
    event_us = merged.readings.column(EVENT_US)
    parts = [roll_up(series, rollup, segment) for rollup in spec.rollups] if series.rows else []
    return ScanResult(
        segment=segment,
        readings=series.rows,
        first_us=event_us[0].as_py() if series.rows else None,
        last_us=event_us[-1].as_py() if series.rows else None,
        duplicates=merged.duplicates,
        conflicts=merged.conflicts,
        conflict_list=merged.conflict_list,
        conflict_pairs=merged.conflict_pairs,
        digest=digest_readings(merged.readings),
        summaries=pa.concat_tables([SUMMARY_SCHEMA.empty_table(), *summaries]),
        rollup_parts=pa.concat_tables([ROLLUP_SCHEMA.empty_table(), *parts]),
        folded=FoldedSegment(series, folds),
        kept=KeptReadings(merged, kept) if keep_readings else None,
    )


def fold_segment(segment: Segment, fragments: Sequence[FragmentInput], spec: ScanSpec) -> FoldedSegment:
    """The readings and folds of a segment alone: all that another state of it is compared with."""
    series = series_of(segment, merge_fragments(fragments, spec), spec)
    return FoldedSegment(series, {metric.name: fold_metric(series, metric) for metric in spec.metrics})


def series_of(segment: Segment, merged: Merged, spec: ScanSpec) -> Series:
    """The readings of a segment ready to be folded; also what running values are made from."""
    start = datetime_of(segment.start_us).isoformat(timespec="seconds").replace("+00:00", "Z")
    label = f"the segment of {spec.subject} from {start}"
    event_us = merged.readings.column(EVENT_US)
    if len(event_us) and not (
        segment.contains(event_us[0].as_py()) and segment.contains(event_us[-1].as_py())
    ):
        raise FragmentMismatchError(
            f"a fragment holds readings outside {label}; nothing of it was changed. "
            "Run 'disarray files reingest' on its file"
        )
    return Series(merged.readings, attributes=spec.attributes, label=label)
