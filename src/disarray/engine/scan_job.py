"""Job 2: scan the touched segments again, and bring back what a commit needs to know of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.kernels.scanning import scan_segment
from disarray.model.packing import pack_by_weight, task_count
from disarray.model.scan_spec import ScanSpec, scan_spec_of
from disarray.model.segments import Segment
from disarray.store.fragments import fragment_input

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """One segment of one subject to scan."""

    dataset: Dataset
    subject_key: str
    unit: ScanUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    """What the catalog keeps of a segment: rows keyed like the tables they go to."""

    segment: Row
    metrics: Sequence[Row]
    rollups: Sequence[Row]
    conflicts: Sequence[Row]


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A scan as a task gets it: paths are absolute, and nothing has to be looked up."""

    dataset: str
    spec: ScanSpec
    segment: Segment
    unit: ScanUnit
    paths: tuple[str, ...]
    priority: int


def scan_segments(
    runner: Runner, scans: Sequence[SegmentScan], *, lake: Lake
) -> dict[tuple[str, str, int], ScannedSegment]:
    """Scan many segments, packed into tasks by readings; results by dataset, subject and start of segment."""
    specs = {
        (scan.dataset.name, scan.subject_key): scan_spec_of(scan.dataset, scan.subject_key) for scan in scans
    }
    requests = [
        ScanRequest(
            dataset=scan.dataset.name,
            spec=specs[scan.dataset.name, scan.subject_key],
            segment=Segment(scan.unit.segment_us, scan.unit.segment_us + scan.dataset.segment_us),
            unit=scan.unit,
            paths=tuple(lake.absolute(fragment.path) for fragment in scan.unit.fragments),
            priority=scan.dataset.priority,
        )
        for scan in scans
    ]
    weights = [request.unit.readings for request in requests]
    count = task_count(weights, cores=runner.cores, most_per_task=TASK_READINGS)
    tasks = [tuple(requests[index] for index in task) for task in pack_by_weight(weights, tasks=count)]
    return {key: result for results in runner.run(scan_task, tasks) for key, result in results.items()}


def scan_task(requests: Sequence[ScanRequest]) -> dict[tuple[str, str, int], ScannedSegment]:
    """The kernel of job 2."""
    return {
        (request.dataset, request.spec.subject, request.segment.start_us): _scan(request)
        for request in requests
    }


def _scan(request: ScanRequest) -> ScannedSegment:
    unit = request.unit
    result = scan_segment(
        request.segment,
        [
            fragment_input(fragment, path, priority=request.priority)
            for fragment, path in zip(unit.fragments, request.paths, strict=True)
        ],
        request.spec,
    )
    keys = {"dataset": request.dataset, "subject_key": request.spec.subject}
    return ScannedSegment(
        segment=_segment_row(request, result),
        metrics=[keys | row for row in _rows(result.summaries)],
        rollups=[keys | row for row in _rows(result.rollup_parts)],
        conflicts=result.conflict_list.to_pylist(),
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
