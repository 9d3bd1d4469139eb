"""Job 2: scan the touched segments again, and bring back what a commit needs to know of them.

A task prepares the rows of its segments. A few come back with the descriptors; where there are many, they lie in the
staging folder, and the commit streams them from there.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from disarray.errors import DisarrayError, FragmentMismatchError, FragmentReadError
from disarray.failpoints import failpoint
from disarray.kernels.fragments.fragment_reader import FragmentReader
from disarray.kernels.scanning.restated import compare_segments
from disarray.kernels.scanning.rollup_blocks import pack_parts
from disarray.kernels.scanning.segment_scan import fold_segment, scan_segment
from disarray.kernels.scanning.table_rows import uri_of
from disarray.model.description.scan_spec import ScanSpec, scan_spec_of
from disarray.model.packing import pack_by_weight, task_count
from disarray.model.segments import Segment, datetime_of
from disarray.store.fragments import fragment_inputs
from disarray.store.staging import RowsWanted, StagedParts, StagedRows, StagingFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from disarray.engine.runner import Runner
    from disarray.kernels.scanning.segment_rows import FragmentInput
    from disarray.kernels.scanning.segment_scan import ScanResult
    from disarray.model.description.dataset import Dataset
    from disarray.model.scan_units import ScanUnit
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

    @property
    def segment(self) -> Segment:
        """From when to when it goes."""
        return Segment(self.unit.segment_us, self.unit.segment_us + self.dataset.segment_length_us)

    @property
    def spec(self) -> ScanSpec:
        """How its fragments become numbers."""
        return scan_spec_of(self.dataset, self.subject_key)

    @property
    def former_spec(self) -> ScanSpec:
        """How they became the numbers that are stored."""
        return scan_spec_of(self.former or self.dataset, self.subject_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    """What the catalog keeps of a segment: rows keyed like the tables they go to, rollup parts in blocks.

    With `parts`, summaries and rollup parts are staged, and `metrics` and `rollups` are empty.
    """

    segment: Row
    conflicts: Sequence[Row]
    metrics: Sequence[Row] = ()
    rollups: Sequence[Row] = ()
    rows: StagedRows | None = None
    parts: StagedParts | None = None
    stretches: Sequence[Row] | None = None  # where folds are others than before; None: not known, not asked


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Segments for one task, and the lake that it reads; the rows that it stages go into one file."""

    scans: tuple[SegmentScan, ...]
    lake: Lake
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

    Rows that are wanted, and summaries and rollup parts beyond a few, are staged in files of a folder, which the caller
    removes. Without a folder all come back.
    """
    weights = [scan.unit.readings for scan in scans]
    count = task_count(weights, cores=runner.cores, most_per_task=TASK_READINGS)
    tasks = [
        ScanTask(
            tuple(scans[index] for index in indices),
            lake,
            None if staging is None else str(staging / f"{number:05d}.rows"),
        )
        for number, indices in enumerate(pack_by_weight(weights, tasks=count))
    ]
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
        for scan in task.scans:
            key = scan.dataset.name, scan.subject_key, scan.unit.segment_us
            try:
                scanned = _scan(scan, task.lake, reader, staging, inline_rows=INLINE_ROWS - inline)
            except (FragmentReadError, FragmentMismatchError) as error:
                result.failures[key] = str(error)
                continue
            inline += len(scanned.metrics) + sum(len(block["points"]) for block in scanned.rollups)
            result.scanned[key] = scanned
    return result


def _scan(
    scan: SegmentScan,
    lake: Lake,
    reader: FragmentReader,
    staging: StagingFile | None,
    *,
    inline_rows: int,
) -> ScannedSegment:
    failpoint("scan.segment", about=scan.subject_key)
    spec = scan.spec
    inputs = fragment_inputs(reader, scan.unit.fragments, lake.absolute, subject_key=scan.subject_key)
    result = scan_segment(scan.segment, inputs, spec, keep_readings=scan.rows is not None)
    rows = None
    if scan.rows is not None and result.kept is not None and staging is not None:
        rows = staging.put(result.kept, scan.rows, subject=scan.subject_key, segment_us=scan.unit.segment_us)
    metrics, rollups = result.summaries, result.rollup_parts
    scanned = ScannedSegment(
        segment=_segment_row(scan, result) | {"table_digest": None if rows is None else rows.digest},
        conflicts=conflict_rows(result),
        rows=rows,
        stretches=_stretches(scan, lake, reader, inputs=inputs, result=result, spec=spec),
    )
    blocks = pack_parts(rollups)
    if staging is not None and metrics.num_rows + rollups.num_rows > inline_rows:
        return replace(scanned, parts=staging.put_parts(metrics, blocks))
    return replace(scanned, metrics=metrics.to_pylist(), rollups=[block.document() for block in blocks])


def _stretches(
    scan: SegmentScan,
    lake: Lake,
    reader: FragmentReader,
    *,
    inputs: Sequence[FragmentInput],
    result: ScanResult,
    spec: ScanSpec,
) -> list[Row] | None:
    """Where the folds differ from those of the segment as it is before the commit; None where that is not known."""
    former, former_spec = scan.unit.former, scan.former_spec
    if former is None:
        return None
    if former_spec == spec and former.digest == result.digest:
        return []
    known = {
        fragment.extent: each.readings for fragment, each in zip(scan.unit.fragments, inputs, strict=True)
    }
    try:
        before = fold_segment(
            scan.segment,
            fragment_inputs(
                reader, former.fragments, lake.absolute, subject_key=scan.subject_key, known=known
            ),
            former_spec,
        )
    except (DisarrayError, OSError, pa.ArrowException) as error:
        # What goes may be what is damaged, and reading its file again is how that is mended.
        log.warning(
            "the former readings of %s from %s on cannot be read (%s): by how much values change is not recorded",
            scan.subject_key,
            datetime_of(scan.unit.segment_us),
            error,
        )
        return None
    return [{"segment_us": scan.unit.segment_us, **row} for row in compare_segments(before, result.folded)]


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


def _segment_row(scan: SegmentScan, result: ScanResult) -> Row:
    return {
        "segment_us": scan.segment.start_us,
        "segment_end_us": scan.segment.end_us,
        "revision": scan.unit.revision,
        "readings": result.readings,
        "duplicates": result.duplicates + scan.unit.copied_readings,
        "conflicts": result.conflicts,
        "first_us": result.first_us,
        "last_us": result.last_us,
        "digest": result.digest,
    }
