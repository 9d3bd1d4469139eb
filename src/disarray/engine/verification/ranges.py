"""Histories cut into ranges of neighbouring segments: no subject is one task, however long it has been there."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from disarray.engine.verification.file_readings import Contribution
from disarray.engine.verification.range_check import SegmentRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.verification import StoredSubject
    from disarray.engine.verification.scratch import SourceSlice
    from disarray.engine.verification.selection import Selection
    from disarray.engine.verification.sources import LakeFragment, Sources
    from disarray.engine.verification.stored_rows import StoredRows
    from disarray.model.description.dataset import Dataset

RANGE_READINGS = 250_000


def ranges_of(
    dataset: Dataset,
    subjects: Sequence[StoredSubject],
    sources: Sources,
    *,
    rollup_rows: Mapping[str, StoredRows],
    selection: Selection,
) -> list[SegmentRange]:
    """The ranges of each subject, from the beginning of time to its end: what is stored where nothing is, is found."""
    contributions = _contributions(subjects, sources)
    found = []
    for subject in subjects:
        key = subject.subject_key
        sealed = subject.sealed_segments(dataset.name)
        stored = {
            row["segment_us"]: row
            for row in subject.segments.get(dataset.name, ())
            if row["segment_us"] not in sealed
            and selection.takes(key, row["segment_us"], length_us=dataset.segment_length_us)
        }
        weights: dict[int, int] = {segment_us: row["readings"] for segment_us, row in stored.items()}
        by_segment: dict[int, list[Contribution]] = defaultdict(list)
        for each in contributions.get(key, ()):
            by_segment[each.segment_us].append(each)
        for segment_us, own in by_segment.items():
            weights[segment_us] = max(weights.get(segment_us, 0), sum(map(_readings, own)))
        cuts = _cuts(weights)
        for number, ((start_us, segments), (end_us, _)) in enumerate(pairwise([*cuts, (None, [])])):
            rows = rollup_rows.get(key)
            first_us = start_us if number else None
            found.append(
                SegmentRange(
                    subject_key=key,
                    number=number,
                    start_us=first_us,
                    end_us=end_us,
                    readings=sum(weights[segment_us] for segment_us in segments),
                    contributions=tuple(each for segment_us in segments for each in by_segment[segment_us]),
                    segments=tuple(
                        (segment_us, stored[segment_us]["digest"], stored[segment_us]["readings"])
                        for segment_us in segments
                        if segment_us in stored
                    ),
                    rollup_rows=None if rows is None else rows.between(first_us, end_us),
                    sealed=sealed,
                    selection=selection,
                )
            )
    return found


def _cuts(weights: Mapping[int, int]) -> list[tuple[int | None, list[int]]]:
    """Where ranges begin, and their segments; there is one even where there is no segment."""
    found: list[tuple[int | None, list[int]]] = []
    load = 0
    for segment_us in sorted(weights):
        if not found or load + weights[segment_us] > RANGE_READINGS:
            found.append((segment_us, []))
            load = 0
        found[-1][1].append(segment_us)
        load += weights[segment_us]
    return found or [(None, [])]


def _contributions(subjects: Sequence[StoredSubject], sources: Sources) -> dict[str, list[Contribution]]:
    """By subject: what each generation of each file says about each segment."""
    arrivals = {file.source_uri: file.arrival for subject in subjects for file in subject.files}
    unproven = {(each.source_uri, each.generation) for each in sources.unproven}
    reads = {read.source_uri: read for read in sources.reads}
    slices: dict[tuple[str, str, int, int], list[SourceSlice]] = defaultdict(list)
    for slice_ in sources.slices:
        generation = reads[slice_.source_uri].generation
        slices[slice_.subject_key, slice_.source_uri, generation, slice_.segment_us].append(slice_)
    fragments: dict[tuple[str, str, int, int], list[LakeFragment]] = defaultdict(list)
    for each in sources.fragments:
        own = each.fragment
        fragments[each.subject_key, own.source_uri, own.generation, own.segment_us].append(each)
    found: dict[str, list[Contribution]] = defaultdict(list)
    for key in sorted({*slices, *fragments}):
        subject_key, uri, generation, segment_us = key
        kept = fragments.get(key, [])
        read = reads.get(uri)
        is_newest = read is not None and read.generation == generation
        found[subject_key].append(
            Contribution(
                source_uri=uri,
                generation=generation,
                content_hash=read.content_hash if read and is_newest else kept[0].content_hash,
                arrival=arrivals.get(uri, -1),
                is_proven=(uri, generation) not in unproven,
                segment_us=segment_us,
                slices=tuple(slices.get(key, ())),
                fragments=tuple((each.fragment, each.path) for each in kept),
            )
        )
    return found


def _readings(contribution: Contribution) -> int:
    read = sum(each.readings for each in contribution.slices)
    return max(read, sum(fragment.readings for fragment, _ in contribution.fragments))
