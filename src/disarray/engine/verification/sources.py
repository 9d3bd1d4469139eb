"""What the accepted files say, read afresh from their sources, beside what the lake keeps of them.

A source that is gone, or no longer what was taken in, proves nothing: what the lake keeps of it stands in for it, so
that everything that follows can still be recomputed, and it is named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from disarray.engine.verification.scratch import (
    Gathered,
    GatherTask,
    LakePart,
    SourceRead,
    gather,
)
from disarray.kernels.reading.outcome import ReadReason, ReadRequest
from disarray.model.description.read_spec import RejectLimits
from disarray.model.file_parts import part_name
from disarray.model.fingerprints import Tail
from disarray.model.fragments import FragmentState
from disarray.model.matching import match_file
from disarray.model.packing import pack_by_weight, task_count
from disarray.model.uris import file_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from disarray.control.verification import StoredFile, StoredSubject
    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset
    from disarray.model.fragments import FragmentEntry
    from disarray.store.lake import Lake

TASK_BYTES = 64 << 20
_BYTES_PER_READING = 40


@dataclass(frozen=True, slots=True)
class Unproven:
    """A contribution whose source cannot be asked any more: `reason` says why."""

    subject_key: str
    source_uri: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Two sets of Parquet files of one shape, and what is to be taken from where."""

    source_files: Sequence[str]
    lake_files: Sequence[str]
    files: int
    unproven: Sequence[Unproven]
    unreadable: Mapping[tuple[str, str, int], str]  # subject, uri, segment → what the lake answered
    segments: frozenset[int]


def gather_sources(
    runner: Runner,
    dataset: Dataset,
    subjects: Sequence[StoredSubject],
    *,
    lake: Lake,
    folder: Path,
    now_us: int,
) -> Sources:
    """Read every accepted file of these subjects from its source, and every fragment from the lake."""
    reads: list[SourceRead] = []
    parts: list[LakePart] = []
    unproven: list[Unproven] = []
    for subject in subjects:
        fragments = subject.fragments.get(dataset.name, ())
        files = {file.source_uri: file for file in accepted_files(subject, dataset)}
        reads += [
            source_read(
                subject.subject_key,
                file,
                dataset,
                fragments=fragments,
                sealed=subject.sealed_segments(dataset.name),
                now_us=now_us,
            )
            for file in files.values()
        ]
        active = [fragment for fragment in fragments if fragment.state is FragmentState.ACTIVE]
        parts += [
            _lake_part(subject.subject_key, fragment, files.get(fragment.source_uri), lake=lake)
            for fragment in active
        ]
        unproven += earlier_generations(subject.subject_key, active, files)
    gathered = _run(runner, dataset, reads, parts, folder)
    failed = {uri: reason for each in gathered for uri, reason in each.failed_reads.items()}
    unproven += [
        Unproven(read.subject_key, read.source_uri, read.generation, failed[read.source_uri])
        for read in reads
        if read.source_uri in failed
    ]
    return Sources(
        source_files=[each.source_file for each in gathered if each.source_file is not None],
        lake_files=[each.lake_file for each in gathered if each.lake_file is not None],
        files=len(reads),
        unproven=unproven,
        unreadable={key: reason for each in gathered for key, reason in each.failed_parts.items()},
        segments=frozenset().union(*(each.segments for each in gathered)),
    )


def accepted_files(subject: StoredSubject, dataset: Dataset) -> list[StoredFile]:
    """The files of a dataset that count at this moment, by the decisions made about them."""
    held = {fragment.source_uri for fragment in subject.fragments.get(dataset.name, ())}
    return [
        file
        for file in subject.files
        if dataset_of(file, [dataset]) == dataset.name
        # Of a file about several subjects, its parts are read.
        and (dataset.subject_column is None or part_name(file.source_uri) is not None)
        # A decision that waits in the queue is not in the numbers yet: whether the file is, its fragments tell.
        and (file.source_uri in held if file.is_about_to_change else not file.is_blacklisted)
    ]


def dataset_of(file: StoredFile, datasets: Sequence[Dataset]) -> str | None:
    """The dataset that a file was announced for, or the one of these that takes it."""
    if file.dataset is not None:
        return file.dataset
    matched = match_file(file.source_uri, datasets)
    return matched.dataset.name if matched else None


def source_read(
    subject_key: str,
    file: StoredFile,
    dataset: Dataset,
    *,
    fragments: Sequence[FragmentEntry],
    sealed: frozenset[int],
    now_us: int,
) -> SourceRead:
    """How a file is read again as it was taken in."""
    uri, stored = file.source_uri, file.fingerprint
    reason = ReadReason.QUIET if stored.tail is Tail.TAKEN else ReadReason.NOTIFICATION
    request = ReadRequest.for_dataset(dataset, file_path(uri), reason=reason, now_us=now_us, stored=None)
    # Whether the file was acceptable was decided when it was taken in.
    part = part_name(uri)
    request = replace(
        request,
        spec=replace(request.spec, reject_limits=RejectLimits()),
        # Whom each line is about is asked of the line.
        only_subject=None if part is None else part.subject_key,
    )
    return SourceRead(
        subject_key=subject_key,
        source_uri=uri,
        generation=stored.generation,
        size=stored.size,
        content_hash=stored.content_hash,
        request=request,
        left_out=tuple(
            (fragment.segment_us, fragment.first_position, fragment.last_position)
            for fragment in fragments
            if fragment.state in (FragmentState.PARKED, FragmentState.REJECTED)
            and fragment.source_uri == uri
            and fragment.generation == stored.generation
        ),
        sealed=tuple(sorted(sealed)),
        future_positions=tuple(sorted(file.future_positions)),
    )


def _lake_part(subject_key: str, fragment: FragmentEntry, file: StoredFile | None, *, lake: Lake) -> LakePart:
    is_newest = file is not None and file.fingerprint.generation == fragment.generation
    return LakePart(
        subject_key=subject_key,
        fragment=fragment,
        path=lake.absolute(fragment.path),
        content_hash=file.fingerprint.content_hash if file and is_newest else fragment.order_key,
    )


def earlier_generations(
    subject_key: str, active: Sequence[FragmentEntry], files: Mapping[str, StoredFile]
) -> list[Unproven]:
    """What files said before they were replaced: it stays, and no source says it any more."""
    earlier = {
        (fragment.source_uri, fragment.generation)
        for fragment in active
        if fragment.source_uri in files
        and fragment.generation != files[fragment.source_uri].fingerprint.generation
    }
    reason = "replaced by a later generation of the file; its readings stay"
    return [Unproven(subject_key, uri, generation, reason) for uri, generation in sorted(earlier)]


def _run(
    runner: Runner, dataset: Dataset, reads: Sequence[SourceRead], parts: Sequence[LakePart], folder: Path
) -> list[Gathered]:
    units: list[SourceRead | LakePart] = [*reads, *parts]
    weights = [
        unit.size if isinstance(unit, SourceRead) else unit.fragment.readings * _BYTES_PER_READING
        for unit in units
    ]
    count = task_count(weights, cores=runner.cores, most_per_task=TASK_BYTES)
    tasks = []
    for number, indices in enumerate(pack_by_weight(weights, tasks=count)):
        own = [units[index] for index in indices]
        tasks.append(
            GatherTask(
                spec=dataset.read_spec(),
                reads=tuple(unit for unit in own if isinstance(unit, SourceRead)),
                parts=tuple(unit for unit in own if isinstance(unit, LakePart)),
                source_file=str(folder / f"{dataset.name}-source-{number:05d}.parquet"),
                lake_file=str(folder / f"{dataset.name}-lake-{number:05d}.parquet"),
                copies=str(folder / f"{dataset.name}-copy-{number:05d}"),
            )
        )
    return runner.run(gather, tasks)
