"""The files that say something about a span of a subject, read again as they were taken in, into a scratch folder."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control import catalog, status
from disarray.engine.replay.replay_tasks import FreshFragment, ReadSources, read_sources
from disarray.engine.replay.subject_findings import unproven
from disarray.engine.verification.sources import (
    accepted_files,
    earlier_generations,
    left_out_positions,
    source_read,
)
from disarray.model.duration import DAY
from disarray.model.fragments import FragmentEntry, FragmentState
from disarray.model.packing import pack_by_weight, task_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from disarray.control.connections import Connection
    from disarray.control.verification import StoredSubject
    from disarray.engine.runner import Runner
    from disarray.engine.verification.scratch import SourceRead
    from disarray.kernels.fragments.fragment_writer import Fragment
    from disarray.model.description.dataset import Dataset
    from disarray.model.replay_finding import ReplayFinding

TASK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class SpanSources:
    """What files say about a span now: fragments by segment; why some prove nothing, by uri."""

    files: int
    fresh: Mapping[int, Sequence[FreshFragment]]
    failed: Mapping[str, str]
    findings: Sequence[ReplayFinding]


@dataclass(frozen=True)
class FreshSources:
    """Reads the files of one dataset of one subject under a definition; `before` is that of what is stored."""

    connection: Connection
    runner: Runner
    dataset: Dataset
    before: Dataset
    stored: StoredSubject

    def of_span(self, first_us: int, last_us: int, *, folder: Path) -> SpanSources:
        """Read what says something about the segments of a span; fragments go into files of the folder."""
        reads, findings = self._to_read(first_us, last_us)
        fragments, failed = self._read(reads, folder)
        findings += [
            unproven(self.dataset, self.stored.subject_key, read.source_uri, failed[read.source_uri])
            for read in reads
            if read.source_uri in failed
        ]
        fresh = self._fresh(reads, fragments, first_us=first_us, last_us=last_us)
        return SpanSources(len(reads), fresh, failed, findings)

    def _to_read(self, first_us: int, last_us: int) -> tuple[list[SourceRead], list[ReplayFinding]]:
        """The files, and what of earlier generations stays without a source."""
        known = self.stored.fragments.get(self.dataset.name, ())
        # Read otherwise, what a file says may lie elsewhere; by more than a day it is not looked for.
        margin_us = 0 if self.before.parse_version == self.dataset.parse_version else DAY
        files = {file.source_uri: file for file in accepted_files(self.stored, self.dataset)}
        within = [each for each in known if first_us - margin_us <= each.segment_us <= last_us + margin_us]
        silent = files.keys() - {each.source_uri for each in known}
        wanted = {each.source_uri for each in within} | silent
        left_out = left_out_positions(known)
        now_us = status.current_us(self.connection)
        reads = [
            source_read(
                self.stored.subject_key,
                files[uri],
                self.dataset,
                left_out=tuple(left_out.get((uri, files[uri].fingerprint.generation), ())),
                sealed=self.stored.sealed_segments(self.dataset.name),
                now_us=now_us,
            )
            for uri in sorted(wanted & files.keys())
        ]
        active = [each for each in within if each.state is FragmentState.ACTIVE]
        earlier = earlier_generations(self.stored.subject_key, active, files)
        return reads, [
            unproven(self.dataset, self.stored.subject_key, each.source_uri, each.reason) for each in earlier
        ]

    def _read(
        self, reads: Sequence[SourceRead], folder: Path
    ) -> tuple[dict[str, tuple[Fragment, ...]], dict[str, str]]:
        weights = [read.size for read in reads]
        count = task_count(weights, cores=self.runner.cores, most_per_task=TASK_BYTES)
        spec = self.dataset.read_spec()
        tasks = [
            ReadSources(spec, tuple(reads[index] for index in indices), str(folder / f"{number:05d}.parquet"))
            for number, indices in enumerate(pack_by_weight(weights, tasks=count))
        ]
        results = self.runner.run(read_sources, tasks)
        return (
            {uri: own for result in results for uri, own in result.fragments.items()},
            {uri: reason for result in results for uri, reason in result.failed.items()},
        )

    def _fresh(
        self,
        reads: Sequence[SourceRead],
        fragments: Mapping[str, tuple[Fragment, ...]],
        *,
        first_us: int,
        last_us: int,
    ) -> dict[int, list[FreshFragment]]:
        """What was read, by segment. Files with the same bytes share their row groups, as they do in the lake."""
        sealed = self.stored.sealed_segments(self.dataset.name)
        originals = {_content(read): read.source_uri for read in reads if read.source_uri in fragments}
        found: dict[int, list[FreshFragment]] = defaultdict(list)
        for read in reads:
            original = originals.get(_content(read))
            own = () if original is None else fragments[original]
            entries = [
                _entry(read, fragment)
                for fragment in own
                if first_us <= fragment.segment_us <= last_us and fragment.segment_us not in sealed
            ]
            for entry in catalog.with_arrivals(self.connection, self.dataset, entries):
                left_out = tuple(
                    (first, last) for at_us, first, last in read.left_out if at_us == entry.segment_us
                )
                found[entry.segment_us].append(FreshFragment(entry, left_out, read.future_positions))
        return found


def _content(read: SourceRead) -> tuple[str, str, str | None]:
    return read.content_hash, read.request.reason.value, read.request.only_subject


def _entry(read: SourceRead, fragment: Fragment) -> FragmentEntry:
    return FragmentEntry(
        segment_us=fragment.segment_us,
        source_uri=read.source_uri,
        generation=read.generation,
        path=fragment.path,
        row_group=fragment.row_group,
        readings=fragment.readings,
        first_position=fragment.first_position,
        last_position=fragment.last_position,
        first_us=fragment.first_us,
        last_us=fragment.last_us,
        digest=fragment.digest,
    )
