"""Job 2: scan the touched segments again, and bring back what a commit needs to know of them.

A task prepares the rows of its segments. A few come back with the descriptors; where there are many, they lie in the
staging folder, and the commit streams them from there.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from disarray.errors import DisarrayError, FragmentMismatchError, FragmentReadError
from disarray.failpoints import failpoint
from disarray.kernels.fragments.fragment_reader import FragmentReader
from disarray.kernels.scanning.restated import compare_segments
from disarray.kernels.scanning.segment_scan import fold_segment, scan_segment
from disarray.kernels.scanning.table_rows import uri_of
from disarray.model.description.scan_spec import ScanSpec, scan_spec_of
from disarray.model.packing import pack_by_weight, task_count
from disarray.model.segments import Segment, datetime_of
from disarray.store.fragments import fragment_inputs
from disarray.store.staging import RowsWanted, StagedParts, StagedRows, StagingFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from disarray.engine.runner import Runner
    from disarray.kernels.scanning.segment_rows import FragmentInput
    from disarray.kernels.scanning.segment_scan import ScanResult
    from disarray.model.description.dataset import Dataset
    from disarray.model.plan import ScanUnit
    from disarray.store.lake import Lake

log = logging.getLogger(__name__)

Row = dict[str, Any]
SegmentOfSubject = tuple[str, str, int]  # dataset, subject, start of the segment

# A task scans about so many readings: some seconds, and some hundred megabytes.
TASK_READINGS = 5_000_000
# A task brings back so many rows at most, some megabytes in the driver; all that is more is staged.
INLINE_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class SegmentScan:
    """One segment of one subject to scan; with `rows`, its readings are wanted as well."""

    dataset: Dataset
    subject_key: str
    unit: ScanUnit
    rows: RowsWanted | None = None
    former: Dataset | None = None  # the definition that its numbers were made under; None: `dataset`


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    """What the catalog keeps of a segment: rows keyed like the tables they go to.

    With `parts`, summaries and rollup parts are staged, and `metrics` and `rollups` are empty.
    """

    segment: Row
    metrics: Sequence[Row]
    rollups: Sequence[Row]
    conflicts: Sequence[Row]
    rows: StagedRows | None = None
    parts: StagedParts | None = None
    stretches: Sequence[Row] | None = None  # where folds are others than before; None: not known, not asked


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A scan as a task gets it: paths are absolute, and nothing has to be looked up."""

    dataset: str
    spec: ScanSpec
    segment: Segment
    unit: ScanUnit
    paths: Mapping[str, str]  # as the catalog keeps them → absolute
    rows: RowsWanted | None
    former: ScanSpec


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Segments for one task; the rows that it stages go into one file."""

    requests: tuple[ScanRequest, ...]
    staging: str | None


@dataclass(frozen=True, slots=True)
class ScanJobResult:
    """Results by dataset, subject and start of segment; `failures` say why the lake does not give a segment."""

    scanned: dict[SegmentOfSubject, ScannedSegment]
    failures: dict[SegmentOfSubject, str]


def scan_segments(
    runner: Runner, scans: Sequence[SegmentScan], *, lake: Lake
) -> dict[SegmentOfSubject, ScannedSegment]:
    """Scan many segments, all of them or none: a segment that the lake does not give is an error."""
    result = scan_readable_segments(runner, scans, lake=lake)
    for message in result.failures.values():
        raise FragmentReadError(message)
    return result.scanned


def scan_readable_segments(
    runner: Runner, scans: Sequence[SegmentScan], *, lake: Lake, staging: Path | None = None
) -> ScanJobResult:
    """Scan many segments, packed into tasks by readings. One that is damaged or missing never fails the others.

    Rows that are wanted, and summaries and rollup parts beyond a few, are staged in files of a folder, which whoever
    asked for them removes. Without a folder all come back.
    """
    specs = {
        (scan.dataset.name, scan.subject_key): scan_spec_of(scan.dataset, scan.subject_key) for scan in scans
    }
    requests = [
        ScanRequest(
            dataset=scan.dataset.name,
            spec=specs[scan.dataset.name, scan.subject_key],
            segment=Segment(scan.unit.segment_us, scan.unit.segment_us + scan.dataset.segment_us),
            unit=scan.unit,
            paths={
                fragment.path: lake.absolute(fragment.path)
                for fragment in (
                    *scan.unit.fragments,
                    *(() if scan.unit.former is None else scan.unit.former.fragments),
                )
            },
            rows=scan.rows,
            former=scan_spec_of(scan.former, scan.subject_key)
            if scan.former is not None
            else specs[scan.dataset.name, scan.subject_key],
        )
        for scan in scans
    ]
    weights = [request.unit.readings for request in requests]
    count = task_count(weights, cores=runner.cores, most_per_task=TASK_READINGS)
    tasks = []
    for number, indices in enumerate(pack_by_weight(weights, tasks=count)):
        own = tuple(requests[index] for index in indices)
        tasks.append(ScanTask(own, None if staging is None else str(staging / f"{number:05d}.rows")))
    results = runner.run(scan_task, tasks)
    return ScanJobResult(
        {key: scanned for result in results for key, scanned in result.scanned.items()},
        {key: failure for result in results for key, failure in result.failures.items()},
    )


def scan_task(task: ScanTask) -> ScanJobResult:
    """The kernel of job 2."""
    result = ScanJobResult({}, {})
    with ExitStack() as stack:
        reader = stack.enter_context(FragmentReader())
        staging = stack.enter_context(StagingFile(task.staging)) if task.staging is not None else None
        inline = 0
        for request in task.requests:
            key = request.dataset, request.spec.subject, request.segment.start_us
            try:
                scanned = _scan(request, reader, staging, inline_rows=INLINE_ROWS - inline)
            except (FragmentReadError, FragmentMismatchError) as error:
                result.failures[key] = str(error)
                continue
            inline += len(scanned.metrics) + len(scanned.rollups)
            result.scanned[key] = scanned
    return result


def _scan(
    request: ScanRequest, reader: FragmentReader, staging: StagingFile | None, *, inline_rows: int
) -> ScannedSegment:
    unit = request.unit
    failpoint("scan.segment", about=request.spec.subject)
    inputs = fragment_inputs(
        reader,
        unit.fragments,
        request.paths.__getitem__,
        subject_key=request.spec.subject,
    )
    result = scan_segment(
        request.segment,
        inputs,
        request.spec,
        keep_readings=request.rows is not None,
    )
    rows = None
    if request.rows is not None and result.kept is not None and staging is not None:
        rows = staging.put(
            result.kept, request.rows, subject=request.spec.subject, segment_us=request.segment.start_us
        )
    segment = _segment_row(request, result) | {"table_digest": None if rows is None else rows.digest}
    conflicts = conflict_rows(result)
    stretches = _stretches(request, reader, inputs, result)
    metrics, rollups = _named(result.summaries), _named(result.rollup_parts)
    if staging is not None and metrics.num_rows + rollups.num_rows > inline_rows:
        parts = staging.put_parts({"metrics": metrics, "rollups": rollups})
        return ScannedSegment(
            segment=segment,
            metrics=(),
            rollups=(),
            conflicts=conflicts,
            rows=rows,
            parts=parts,
            stretches=stretches,
        )
    keys = {"dataset": request.dataset, "subject_key": request.spec.subject}
    return ScannedSegment(
        segment=segment,
        metrics=[keys | row for row in metrics.to_pylist()],
        rollups=[keys | row for row in rollups.to_pylist()],
        conflicts=conflicts,
        rows=rows,
        stretches=stretches,
    )


def _stretches(
    request: ScanRequest, reader: FragmentReader, inputs: Sequence[FragmentInput], result: ScanResult
) -> list[Row] | None:
    """Where the folds differ from those of the segment as it is before the commit; None where that is not known."""
    former = request.unit.former
    if former is None:
        return None
    if request.former == request.spec and former.digest == result.digest:
        return []
    try:
        before = fold_segment(
            request.segment,
            fragment_inputs(
                reader,
                former.fragments,
                request.paths.__getitem__,
                subject_key=request.spec.subject,
                known={
                    fragment.extent: each.readings
                    for fragment, each in zip(request.unit.fragments, inputs, strict=True)
                },
            ),
            request.former,
        )
    except (DisarrayError, OSError, pa.ArrowException) as error:
        # What goes may be what is damaged, and reading its file again is how that is mended.
        log.warning(
            "what %s said from %s on can no longer be read (%s): by how much values change there is not told",
            request.spec.subject,
            datetime_of(request.segment.start_us),
            error,
        )
        return None
    return [
        {"segment_us": request.segment.start_us, **row} for row in compare_segments(before, result.folded)
    ]


def conflict_rows(result: ScanResult) -> list[Row]:
    """Which files disagree in a segment and how often, each pair with the earliest examples of the segment."""
    examples: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in result.conflict_list.to_pylist():
        pair = uri_of(row.pop("winner_uri")), uri_of(row.pop("loser_uri"))
        examples[pair].append(row | {"differences": json.loads(row["differences"])})
    counts: Counter[tuple[str, str]] = Counter()
    for winner, loser, conflicts in result.conflict_pairs:
        counts[uri_of(winner), uri_of(loser)] += conflicts
    return [
        {
            "segment_us": result.segment.start_us,
            "winner_uri": winner,
            "loser_uri": loser,
            "conflicts": conflicts,
            "examples": examples[winner, loser],
        }
        for (winner, loser), conflicts in sorted(counts.items())
    ]


def _segment_row(request: ScanRequest, result: ScanResult) -> Row:
    return {
        "segment_us": request.segment.start_us,
        "segment_end_us": request.segment.end_us,
        "revision": request.unit.revision,
        "readings": result.readings,
        "duplicates": result.duplicates + request.unit.copied_readings,
        "conflicts": result.conflicts,
        "first_us": result.first_us,
        "last_us": result.last_us,
        "digest": result.digest,
    }


# What the kernels call a column, and what the catalog does.
_COLUMN_NAMES = {
    "segment_start_us": "segment_us",
    "bucket_start_us": "bucket_us",
    "first_reset_key": "first_reset",
    "last_reset_key": "last_reset",
}


def _named(table: pa.Table) -> pa.Table:
    return table.rename_columns([_COLUMN_NAMES.get(name, _typed_last(name)) for name in table.column_names])


def _typed_last(name: str) -> str:
    kind, _, rest = name.partition("_")
    return f"{rest}_{kind}" if kind in ("int", "float") else name
