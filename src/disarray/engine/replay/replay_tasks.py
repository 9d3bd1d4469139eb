"""The kernels of a replay: files into fragments of a scratch folder, and segments scanned and compared.

They run as tasks. What travels back is what differs, and summaries, from which bases are carried on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from disarray.engine.replay.table_comparison import Comparison, is_same, is_same_value
from disarray.engine.verification.scratch import read_as_taken_in
from disarray.errors import DisarrayError, FragmentReadError
from disarray.failpoints import failpoint
from disarray.kernels.fragments.fragment_reader import FragmentReader
from disarray.kernels.fragments.fragment_writer import FragmentWriter
from disarray.kernels.scanning.rollups import ROLLUP_SCHEMA
from disarray.kernels.scanning.segment_rows import FragmentInput
from disarray.kernels.scanning.segment_scan import scan_segment
from disarray.kernels.scanning.summaries import SUMMARY_SCHEMA
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION
from disarray.model.replay_finding import FindingKind, ReplayFinding, exact_text
from disarray.model.scan_units import scan_unit
from disarray.model.segments import Segment
from disarray.store.fragments import read_own_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disarray.engine.verification.scratch import SourceRead
    from disarray.kernels.fragments.fragment_writer import Fragment
    from disarray.kernels.scanning.segment_scan import ScanResult
    from disarray.model.description.read_spec import ReadSpec
    from disarray.model.description.scan_spec import ScanSpec
    from disarray.model.fragments import FragmentEntry

# So many are listed of one segment; all of them are counted.
MAX_LISTED = 20
SUMMARIES = Comparison(
    ("metric", "channel", "segment_us", "piece"), SUMMARY_SCHEMA, not_always_known=frozenset({"reset_us"})
)
ROLLUP_PARTS = Comparison(("rollup", "aggregate", "channel", "bucket_us", "segment_us"), ROLLUP_SCHEMA)
COMPARED_OF_SEGMENTS = ("readings", "first_us", "last_us", "digest")


@dataclass(frozen=True, slots=True)
class ReadSources:
    """Files of one dataset whose fragments go into one file of the scratch folder."""

    spec: ReadSpec
    reads: tuple[SourceRead, ...]
    path: str


@dataclass(frozen=True, slots=True)
class SourcesRead:
    """What the files say, and why some of them prove nothing; both by uri."""

    fragments: Mapping[str, tuple[Fragment, ...]]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FreshFragment:
    """A fragment that was read just now, less the positions that did not count when its file was taken in."""

    entry: FragmentEntry
    left_out: tuple[tuple[int, int], ...] = ()  # first and last position
    future_positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReplay:
    """One segment: what its files say now, what is stored of them, and the numbers that are stored."""

    segment_us: int
    readings: int
    fresh: tuple[FreshFragment, ...]
    kept: tuple[FragmentEntry, ...]  # active, as the lake has them
    stands_in: tuple[FragmentEntry, ...]  # those of files that prove nothing
    row: Mapping[str, object] | None  # of the table of segments
    summaries: pa.Table
    rollup_parts: pa.Table


@dataclass(frozen=True, slots=True)
class ReplaySegments:
    """Segments of one dataset of one subject."""

    dataset: str
    subject_key: str
    spec: ScanSpec
    segment_length_us: int
    lake_root: str
    segments: tuple[SegmentReplay, ...]


@dataclass(slots=True)
class SegmentsReplayed:
    """What differs, the first few of each segment, and how much; and the summaries that were made."""

    findings: list[ReplayFinding] = field(default_factory=list)
    differences: int = 0
    readings: int = 0
    rollup_parts: int = 0
    summaries: list[pa.Table] = field(default_factory=list)
    segments: set[int] = field(default_factory=set)  # in which something differs


def read_sources(task: ReadSources) -> SourcesRead:
    """Read files as they were taken in, by the reader of the pipeline."""
    writer = FragmentWriter(task.path, task.spec, is_durable=False)
    fragments: dict[str, tuple[Fragment, ...]] = {}
    failed: dict[str, str] = {}
    try:
        for read in task.reads:
            failpoint("replay.read", about=read.source_uri)
            own, reason = read_as_taken_in(read, writer, copy=f"{task.path}.copy")
            if reason is None:
                fragments[read.source_uri] = own
            else:
                failed[read.source_uri] = reason
        writer.close()
        return SourcesRead({uri: writer.with_digests(own) for uri, own in fragments.items()}, failed)
    except BaseException:
        writer.discard()
        raise


def replay_segments(task: ReplaySegments) -> SegmentsReplayed:
    """Scan segments by the code of the pipeline, and compare what comes out with what is stored."""
    result = SegmentsReplayed()
    with FragmentReader() as reader:
        for segment in task.segments:
            failpoint("replay.scan", about=task.subject_key)
            found = list(_replay_segment(task, segment, reader, result))
            result.differences += len(found)
            result.findings += found[:MAX_LISTED]
            result.segments |= {segment.segment_us} if found else set()
    return result


def _replay_segment(
    task: ReplaySegments, segment: SegmentReplay, reader: FragmentReader, result: SegmentsReplayed
) -> Iterator[ReplayFinding]:
    def finding(
        what: str, *, name: str = "", channel: str = "", stored: object, replayed: object
    ) -> ReplayFinding:
        return ReplayFinding(
            kind=FindingKind.DIFFERENT,
            dataset=task.dataset,
            subject_key=task.subject_key,
            segment_us=segment.segment_us,
            what=what,
            name=name,
            channel=channel,
            stored=exact_text(stored),
            replayed=exact_text(replayed),
        )

    fresh: dict[str, list[pa.Table]] = defaultdict(list)
    kept: dict[str, list[pa.Table]] = defaultdict(list)
    inputs: list[FragmentInput] = []
    winners = {(each.extent, each.order_key) for each in _distinct(segment)}
    for each in segment.fresh:
        table = _counting(each, reader)
        fresh[each.entry.order_key].append(table)
        if (each.entry.extent, each.entry.order_key) in winners:
            inputs.append(_input(each.entry, table))
    # What is not read again, and what cannot be read, is compared with nothing.
    apart = {each.order_key for each in segment.stands_in}
    for entry in segment.kept:
        try:
            table = _kept_rows(entry, reader, task.lake_root)
        except (OSError, FragmentReadError, pa.ArrowException) as error:
            message = " ".join(f"{entry.path}: {error}".split())[:200]
            yield finding("fragment", name=entry.source_uri, stored=message, replayed="readable")
            apart.add(entry.order_key)
            continue
        kept[entry.order_key].append(table)
        if (entry.extent, entry.order_key) in winners:
            inputs.append(_input(entry, table))
    files = {each.order_key: each.source_uri for each in segment.kept}
    files |= {each.entry.order_key: each.entry.source_uri for each in segment.fresh}
    for key, uri in sorted(files.items()):
        if key in apart:
            continue
        for column, stored, replayed in _reading_differences(kept[key], fresh[key]):
            yield finding(column, name=uri, stored=stored, replayed=replayed)
    span = Segment(segment.segment_us, segment.segment_us + task.segment_length_us)
    try:
        scanned = scan_segment(span, inputs, task.spec)
    except DisarrayError as error:
        yield finding("segment", stored="scanned", replayed=str(error))
        return
    result.readings += scanned.readings
    result.rollup_parts += scanned.rollup_parts.num_rows
    result.summaries.append(scanned.summaries)
    for column, stored, replayed in _row_differences(segment.row, scanned):
        yield finding(f"segment {column}", stored=stored, replayed=replayed)
    for value in SUMMARIES.differences(segment.summaries, scanned.summaries):
        metric, channel, *_ = value.key
        yield finding(
            f"metric {value.column}",
            name=metric,
            channel=channel,
            stored=value.stored,
            replayed=value.replayed,
        )
    for value in ROLLUP_PARTS.differences(segment.rollup_parts, scanned.rollup_parts):
        rollup, aggregate, channel, *_ = value.key
        yield finding(
            f"rollup {value.column}",
            name=f"{rollup}.{aggregate}",
            channel=channel,
            stored=value.stored,
            replayed=value.replayed,
        )


def _distinct(segment: SegmentReplay) -> list[FragmentEntry]:
    """One entry for each row group that is scanned, as a commit would choose it: copies of a file share theirs."""
    return list(
        scan_unit(
            segment.segment_us, 0, [*(each.entry for each in segment.fresh), *segment.stands_in]
        ).fragments
    )


def _input(entry: FragmentEntry, table: pa.Table) -> FragmentInput:
    return FragmentInput(readings=table, uri=entry.order_key, rows=table.num_rows, priority=entry.arrival)


def _counting(fragment: FreshFragment, reader: FragmentReader) -> pa.Table:
    """The readings of a fragment that count: what was parked, rejected or in the future then is left out."""
    entry = fragment.entry
    table = read_own_rows(reader, entry.path, entry)
    position = table.column(POSITION).to_numpy()
    counts = ~np.isin(position, np.array(fragment.future_positions, dtype=np.int64))
    for first, last in fragment.left_out:
        counts &= (position < first) | (position > last)
    return table if counts.all() else table.filter(pa.array(counts))


def _kept_rows(entry: FragmentEntry, reader: FragmentReader, lake_root: str) -> pa.Table:
    table = read_own_rows(reader, str(Path(lake_root) / entry.path), entry)
    if entry.cut_position is None:
        return table
    return table.filter(pa.array(table.column(POSITION).to_numpy() < entry.cut_position))


def _reading_differences(
    kept: Sequence[pa.Table], fresh: Sequence[pa.Table]
) -> Iterator[tuple[str, object, object]]:
    """What a file says of a segment, and what the lake keeps of that: the columns that differ, or how many readings."""
    stored, replayed = (sum(table.num_rows for table in tables) for tables in (kept, fresh))
    if not stored or not replayed:
        if stored != replayed:
            yield "readings", f"{stored} readings", f"{replayed} readings"
        return
    names = [name for name in fresh[0].column_names if name in kept[0].column_names]
    order = [(name, "ascending") for name in (POSITION, EVENT_US, CHANNEL) if name in names]
    left, right = (
        pa.concat_tables([table.select(names) for table in tables]).sort_by(order) for tables in (kept, fresh)
    )
    if left.schema == right.schema and is_same(left, right):
        return
    if left.num_rows != right.num_rows or left.column(POSITION) != right.column(POSITION):
        yield "readings", f"{stored} readings", f"{replayed} readings"
        return
    for name in names:
        pairs = zip(left.column(name).to_pylist(), right.column(name).to_pylist(), strict=True)
        differing = [(old, new) for old, new in pairs if not is_same_value(old, new)]
        if differing:
            old, new = differing[0]
            more = f" in {len(differing)} readings" if len(differing) > 1 else ""
            yield f"reading {name}{more}", old, new


def _row_differences(
    row: Mapping[str, object] | None, scanned: ScanResult
) -> Iterator[tuple[str, object, object]]:
    if row is None or not scanned.readings:
        if (row is None) != (scanned.readings == 0):
            yield "row", None if row is None else "there", "there" if scanned.readings else None
        return
    for name in COMPARED_OF_SEGMENTS:
        if row[name] != getattr(scanned, name):
            yield name, row[name], getattr(scanned, name)
