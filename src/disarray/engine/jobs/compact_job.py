"""The job of a compaction: many small fragments into few, read back and compared before anyone hears of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from disarray.errors import DisarrayError, FragmentMismatchError
from disarray.kernels.fragments.fragment_reader import FragmentReader
from disarray.kernels.fragments.fragment_writer import FragmentWriter
from disarray.kernels.scanning.compaction import identity_of, join_fragments
from disarray.kernels.scanning.digests import digest_readings
from disarray.kernels.scanning.merging import merge_fragments
from disarray.model.description.format import EVENT_US, POSITION
from disarray.model.description.scan_spec import ScanSpec, scan_spec_of
from disarray.model.fragments import FragmentState
from disarray.model.scan_units import scan_unit
from disarray.store.fragments import fragment_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from disarray.engine.runner import Runner
    from disarray.kernels.scanning.merging import Merged
    from disarray.kernels.scanning.segment_rows import FragmentInput
    from disarray.model.compaction import MergeGroup
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.read_spec import ReadSpec
    from disarray.model.fragments import Extent, FragmentEntry, LakeFile
    from disarray.store.lake import Lake

# What one file holds at most: a scan of one segment must not wait for the footer of a thousand.
FILE_READINGS = 2_000_000
FILE_ROW_GROUPS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMerge:
    """One segment to compact: all that is active in it, and what of that becomes a row group, group after group."""

    segment_us: int
    fragments: tuple[FragmentEntry, ...]
    packs: tuple[tuple[MergeGroup, ...], ...]

    @property
    def readings(self) -> int:
        """About how many readings have to be rewritten."""
        return sum(group.readings for pack in self.packs for group in pack)

    @property
    def gone(self) -> tuple[FragmentEntry, ...]:
        """The fragments that others take the place of."""
        return tuple(fragment for pack in self.packs for group in pack for fragment in group.fragments)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectMerge:
    """Segments of one subject and dataset to compact in one run."""

    dataset: Dataset
    subject_key: str
    run_id: UUID
    segments: tuple[SegmentMerge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """Segments whose merged fragments go into one file."""

    spec: ReadSpec
    scan: ScanSpec
    root: str
    path: str
    segments: tuple[SegmentMerge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedSegment:
    """What takes the place of the fragments of a segment; `digest` is of a scan over it."""

    segment_us: int
    added: tuple[FragmentEntry, ...]
    dropped: tuple[FragmentEntry, ...]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFile:
    """A finished file, the segments that it serves, and those that could not be compacted, with the reason."""

    file: LakeFile | None
    segments: tuple[CompactedSegment, ...]
    failures: dict[int, str]


def compact_subjects(
    runner: Runner, merges: Sequence[SubjectMerge], *, lake: Lake
) -> list[list[CompactedFile]]:
    """Compact segments of many subjects, a file for each run of segments; results in the order of the subjects."""
    tasks: list[CompactTask] = []
    counts = []
    for merge in merges:
        files = list(_files(merge.segments))
        counts.append(len(files))
        scan = scan_spec_of(merge.dataset, merge.subject_key)
        tasks += [
            CompactTask(
                spec=merge.dataset.read_spec(),
                scan=scan,
                root=str(lake.root),
                path=lake.new_file(merge.dataset.name, merge.run_id, number),
                segments=segments,
            )
            for number, segments in enumerate(files)
        ]
    results = iter(runner.run(compact_task, tasks))
    return [[next(results) for _ in range(count)] for count in counts]


def compact_task(task: CompactTask) -> CompactedFile:
    """The kernel: write what is merged, then read it back and compare."""
    failures: dict[int, str] = {}
    written: list[tuple[SegmentMerge, tuple[FragmentEntry, ...], str]] = []
    writer = FragmentWriter(task.path, task.spec)
    try:
        for segment in task.segments:
            try:
                written.append((segment, *_write_segment(task, writer, segment)))
            except (OSError, pa.ArrowInvalid, DisarrayError) as error:
                failures[segment.segment_us] = f"{type(error).__name__}: {error}"
        file = writer.close()
    except BaseException:
        writer.discard()
        raise
    try:
        proven = tuple(
            _proven(task, segment, _with_digests(writer, added), before) for segment, added, before in written
        )
    except BaseException:
        Path(task.path).unlink(missing_ok=True)
        raise
    return CompactedFile(file=file, segments=proven, failures=failures)


def _files(segments: Sequence[SegmentMerge]) -> Iterator[tuple[SegmentMerge, ...]]:
    """Segments that follow one another, as many as a file should hold."""
    held: list[SegmentMerge] = []
    for segment in segments:
        held.append(segment)
        if (
            sum(each.readings for each in held) >= FILE_READINGS
            or sum(len(each.packs) for each in held) >= FILE_ROW_GROUPS
        ):
            yield tuple(held)
            held = []
    if held:
        yield tuple(held)


def _write_segment(
    task: CompactTask, writer: FragmentWriter, segment: SegmentMerge
) -> tuple[tuple[FragmentEntry, ...], str]:
    """Write what is merged of a segment; the entries of it, and what the segment was recognized by before.

    Each row group is read once for all that need it: one by one, a footer would be read for each of its thousand.
    """
    distinct = tuple({fragment.extent: fragment for fragment in segment.fragments}.values())
    inputs = {
        fragment.extent: given for fragment, given in zip(distinct, _inputs(task, distinct), strict=True)
    }
    unit = scan_unit(segment.segment_us, 0, segment.fragments)
    before = identity_of(
        merge_fragments([_as_entered(inputs[entry.extent], entry) for entry in unit.fragments], task.scan)
    )
    added = tuple(entry for pack in segment.packs for entry in _write_pack(task, writer, pack, inputs))
    return added, before


def _write_pack(
    task: CompactTask,
    writer: FragmentWriter,
    pack: Sequence[MergeGroup],
    inputs: Mapping[Extent, FragmentInput],
) -> Iterator[FragmentEntry]:
    tables = [
        join_fragments(
            [_as_entered(inputs[entry.extent], entry) for entry in group.sources], task.spec.order_by
        )
        for group in pack
    ]
    row_group = writer.write(pa.concat_tables(tables))
    first_row = 0
    for group, table in zip(pack, tables, strict=True):
        position = table.column(POSITION).to_numpy()
        event_us = table.column(EVENT_US).to_numpy()
        merged = replace(
            group.sources[0],
            path=str(Path(task.path).relative_to(task.root)),
            row_group=row_group,
            first_row=first_row if len(pack) > 1 else None,
            readings=table.num_rows,
            first_position=int(position.min()),
            last_position=int(position.max()),
            first_us=int(event_us[0]),
            last_us=int(event_us[-1]),
            cut_position=None,
            state=FragmentState.ACTIVE,
            fragment_id=None,
            digest=None,
            file_checksum=None,
        )
        first_row += table.num_rows
        arrivals = {fragment.source_uri: fragment.arrival for fragment in group.fragments}
        for source_uri, generation in group.files:
            yield replace(merged, source_uri=source_uri, generation=generation, arrival=arrivals[source_uri])


def _as_entered(given: FragmentInput, entry: FragmentEntry) -> FragmentInput:
    """The readings of a row group as one of the files counts them that name it."""
    rows = entry.readings
    if entry.cut_position is not None and given.readings.num_rows == rows:
        rows = int(np.count_nonzero(given.readings.column(POSITION).to_numpy() < entry.cut_position))
    return replace(given, uri=entry.order_key, priority=entry.arrival, cut=entry.cut_position, rows=rows)


def _with_digests(writer: FragmentWriter, entries: Sequence[FragmentEntry]) -> tuple[FragmentEntry, ...]:
    return tuple(replace(entry, digest=writer.digest_of(entry.row_group)) for entry in entries)


def _proven(
    task: CompactTask, segment: SegmentMerge, added: tuple[FragmentEntry, ...], before: str
) -> CompactedSegment:
    gone = {fragment.fragment_id for fragment in segment.gone}
    stays = tuple(fragment for fragment in segment.fragments if fragment.fragment_id not in gone)
    merged = _merged(task, segment.segment_us, (*stays, *added))
    if identity_of(merged) != before:
        raise FragmentMismatchError(
            f"compacted, the segment of {task.scan.subject} at {segment.segment_us} µs would no longer hold what it "
            "holds. Nothing was changed; please report this"
        )
    return CompactedSegment(
        segment_us=segment.segment_us,
        added=added,
        dropped=segment.gone,
        digest=digest_readings(merged.readings),
    )


def _merged(task: CompactTask, segment_us: int, fragments: Sequence[FragmentEntry]) -> Merged:
    unit = scan_unit(segment_us, 0, fragments)
    return merge_fragments(_inputs(task, unit.fragments), task.scan)


def _inputs(task: CompactTask, fragments: Sequence[FragmentEntry]) -> list[FragmentInput]:
    root = Path(task.root)
    with FragmentReader() as reader:
        return fragment_inputs(
            reader,
            fragments,
            lambda path: str(root / path),
            subject_key=task.scan.subject,
        )
