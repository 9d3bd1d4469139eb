"""Job 2: scan the touched segments again, and bring back what a commit needs to know of them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.failpoints import failpoint
from disarray.kernels.fragments import FragmentReader
from disarray.kernels.scanning import scan_segment
from disarray.model.packing import pack_by_weight, task_count
from disarray.model.scan_spec import ScanSpec, scan_spec_of
from disarray.model.segments import Segment
from disarray.store.fragments import fragment_inputs
from disarray.store.staging import RowsWanted, StagedRows, StagingFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from disarray.engine.runner import Runner
    from disarray.kernels.scanning import ScanResult
    from disarray.model.dataset import Dataset
    from disarray.model.plan import ScanUnit
    from disarray.store.lake import Lake

Row = dict[str, Any]

# A task scans about so many readings: some seconds, and some hundred megabytes.
TASK_READINGS = 5_000_000


@dataclass(frozen=True, slots=True)
class SegmentScan:
    """One segment of one subject to scan; with `rows`, its readings are wanted as well."""

    dataset: Dataset
    subject_key: str
    unit: ScanUnit
    rows: RowsWanted | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    """What the catalog keeps of a segment: rows keyed like the tables they go to."""

    segment: Row
    metrics: Sequence[Row]
    rollups: Sequence[Row]
    conflicts: Sequence[Row]
    rows: StagedRows | None = None


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A scan as a task gets it: paths are absolute, and nothing has to be looked up."""

    dataset: str
    spec: ScanSpec
    segment: Segment
    unit: ScanUnit
    paths: Mapping[str, str]  # as the catalog keeps them → absolute
    priority: int
    rows: RowsWanted | None


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Segments for one task; the rows that are wanted of them go into one file."""

    requests: tuple[ScanRequest, ...]
    staging: str | None


def scan_segments(
    runner: Runner, scans: Sequence[SegmentScan], *, lake: Lake, staging: Path | None = None
) -> dict[tuple[str, str, int], ScannedSegment]:
    """Scan many segments, packed into tasks by readings; results by dataset, subject and start of segment.

    Rows that are wanted are staged in files of a folder, which whoever asked for them removes.
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
            paths={fragment.path: lake.absolute(fragment.path) for fragment in scan.unit.fragments},
            priority=scan.dataset.priority,
            rows=scan.rows,
        )
        for scan in scans
    ]
    weights = [request.unit.readings for request in requests]
    count = task_count(weights, cores=runner.cores, most_per_task=TASK_READINGS)
    tasks = []
    for number, indices in enumerate(pack_by_weight(weights, tasks=count)):
        own = tuple(requests[index] for index in indices)
        tasks.append(ScanTask(own, None if staging is None else str(staging / f"{number:05d}.rows")))
    return {key: result for results in runner.run(scan_task, tasks) for key, result in results.items()}


def scan_task(task: ScanTask) -> dict[tuple[str, str, int], ScannedSegment]:
    """The kernel of job 2."""
    with ExitStack() as stack:
        reader = stack.enter_context(FragmentReader())
        staging = stack.enter_context(StagingFile(task.staging)) if task.staging is not None else None
        return {
            (request.dataset, request.spec.subject, request.segment.start_us): _scan(request, reader, staging)
            for request in task.requests
        }


def _scan(request: ScanRequest, reader: FragmentReader, staging: StagingFile | None) -> ScannedSegment:
    unit = request.unit
    failpoint("scan.segment", about=request.spec.subject)
    result = scan_segment(
        request.segment,
        fragment_inputs(reader, unit.fragments, request.paths.__getitem__, priority=request.priority),
        request.spec,
        keep_readings=request.rows is not None,
    )
    rows = None
    if request.rows is not None and result.kept is not None and staging is not None:
        rows = staging.put(
            result.kept, request.rows, subject=request.spec.subject, segment_us=request.segment.start_us
        )
    keys = {"dataset": request.dataset, "subject_key": request.spec.subject}
    return ScannedSegment(
        segment=_segment_row(request, result) | {"table_digest": None if rows is None else rows.digest},
        metrics=[keys | row for row in _rows(result.summaries)],
        rollups=[keys | row for row in _rows(result.rollup_parts)],
        conflicts=result.conflict_list.to_pylist(),
        rows=rows,
    )


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


def _rows(table: pa.Table) -> list[Row]:
    renamed = [_COLUMN_NAMES.get(name, _typed_last(name)) for name in table.column_names]
    rows: list[Row] = table.rename_columns(renamed).to_pylist()
    return rows


def _typed_last(name: str) -> str:
    kind, _, rest = name.partition("_")
    return f"{rest}_{kind}" if kind in ("int", "float") else name
