"""What the accepted files say, read afresh from their sources, and which fragments the lake keeps of them.

A source that is gone, or no longer what was taken in, proves nothing: what the lake keeps of it stands in for it, so
that everything that follows can still be recomputed, and it is named.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from disarray.engine.verification.scratch import Gathered, GatherTask, SourceRead, gather
from disarray.engine.verification.selection import EVERYTHING
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
    from disarray.engine.verification.scratch import SourceSlice
    from disarray.engine.verification.selection import Selection
    from disarray.model.description.dataset import Dataset
    from disarray.model.fragments import FragmentEntry
    from disarray.store.lake import Lake

TASK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Unproven:
    """A contribution whose source cannot be asked any more: `reason` says why."""

    subject_key: str
    source_uri: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFragment:
    """One active fragment, and the content of the version of its file that it belongs to."""

    subject_key: str
    fragment: FragmentEntry
    path: str
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Readings of sources in scratch files, fragments in the lake, and whom to believe."""

    reads: Sequence[SourceRead]
    slices: Sequence[SourceSlice]
    fragments: Sequence[LakeFragment]
    unproven: Sequence[Unproven]


def gather_sources(
    runner: Runner,
    dataset: Dataset,
    subjects: Sequence[StoredSubject],
    *,
    lake: Lake,
    folder: Path,
    now_us: int,
    selection: Selection = EVERYTHING,
) -> Sources:
    """Read every accepted file of these subjects from its source that says something about what is selected."""
    reads: list[SourceRead] = []
    parts: list[LakeFragment] = []
    unproven: list[Unproven] = []
    for subject in subjects:
        fragments = subject.fragments.get(dataset.name, ())
        files = {file.source_uri: file for file in accepted_files(subject, dataset)}
        left_out = left_out_positions(fragments)
        if not selection.is_everything:
            fragments = _selected(subject.subject_key, fragments, selection, dataset)
            held = {fragment.source_uri for fragment in fragments}
            files = {uri: file for uri, file in files.items() if uri in held}
        reads += [
            source_read(
                subject.subject_key,
                file,
                dataset,
                left_out=tuple(left_out.get((file.source_uri, file.fingerprint.generation), ())),
                sealed=subject.sealed_segments(dataset.name),
                now_us=now_us,
                selection=selection,
            )
            for file in files.values()
        ]
        active = [fragment for fragment in fragments if fragment.state is FragmentState.ACTIVE]
        parts += [
            _lake_fragment(subject.subject_key, fragment, files.get(fragment.source_uri), lake=lake)
            for fragment in active
        ]
        unproven += earlier_generations(subject.subject_key, active, files)
    gathered = _run(runner, dataset, reads, folder)
    failed = {uri: reason for each in gathered for uri, reason in each.failed_reads.items()}
    unproven += [
        Unproven(read.subject_key, read.source_uri, read.generation, failed[read.source_uri])
        for read in reads
        if read.source_uri in failed
    ]
    return Sources(
        reads=reads,
        slices=[each for some in gathered for each in some.slices if each.source_uri not in failed],
        fragments=parts,
        unproven=unproven,
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
    left_out: tuple[tuple[int, int, int], ...],
    sealed: frozenset[int],
    now_us: int,
    selection: Selection = EVERYTHING,
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
        left_out=left_out,
        sealed=tuple(sorted(sealed)),
        future_positions=tuple(sorted(file.future_positions)),
        selection=selection,
    )


def _selected(
    subject_key: str, fragments: Sequence[FragmentEntry], selection: Selection, dataset: Dataset
) -> list[FragmentEntry]:
    segments = {fragment.segment_us for fragment in fragments}
    taken = selection.only(subject_key, segments, length_us=dataset.segment_length_us)
    return [fragment for fragment in fragments if fragment.segment_us in taken]


def left_out_positions(
    fragments: Sequence[FragmentEntry],
) -> dict[tuple[str, int], list[tuple[int, int, int]]]:
    """By file and generation: segments and positions of what waits or was rejected."""
    found: dict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
    for fragment in fragments:
        if fragment.state in (FragmentState.PARKED, FragmentState.REJECTED):
            found[fragment.source_uri, fragment.generation].append(
                (fragment.segment_us, fragment.first_position, fragment.last_position)
            )
    return found


def _lake_fragment(
    subject_key: str, fragment: FragmentEntry, file: StoredFile | None, *, lake: Lake
) -> LakeFragment:
    is_newest = file is not None and file.fingerprint.generation == fragment.generation
    return LakeFragment(
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


def _run(runner: Runner, dataset: Dataset, reads: Sequence[SourceRead], folder: Path) -> list[Gathered]:
    weights = [read.size for read in reads]
    count = task_count(weights, cores=runner.cores, most_per_task=TASK_BYTES)
    tasks = [
        GatherTask(
            spec=dataset.read_spec(),
            reads=tuple(reads[index] for index in indices),
            scratch_file=str(folder / f"{dataset.name}-source-{number:05d}.arrow"),
            copies=str(folder / f"{dataset.name}-copy-{number:05d}"),
        )
        for number, indices in enumerate(pack_by_weight(weights, tasks=count))
    ]
    return runner.run(gather, tasks)
