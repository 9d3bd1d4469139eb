"""One dataset of one subject made once more from its files, some segments at a time, and compared."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from disarray.control import catalog, definitions, replays, verification
from disarray.control.snapshots import snapshot
from disarray.engine.replay.carried_bases import CarriedBases
from disarray.engine.replay.fresh_sources import FreshSources
from disarray.engine.replay.replay_tasks import (
    COMPARED_OF_SEGMENTS,
    ROLLUP_PARTS,
    SUMMARIES,
    ReplaySegments,
    SegmentReplay,
    replay_segments,
)
from disarray.engine.replay.subject_findings import SubjectReplayed, not_compared
from disarray.model.description.scan_spec import scan_spec_of
from disarray.model.description.versions import unchanged_names
from disarray.model.fragments import FragmentEntry, FragmentState
from disarray.model.packing import pack_by_weight, task_count
from disarray.model.replay_finding import FindingKind, ReplayFinding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from disarray.control.connections import Connection
    from disarray.engine.replay.fresh_sources import SpanSources
    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset
    from disarray.store.lake import Lake

# About so many readings are held in scratch, and their numbers in memory, at a time.
SLICE_READINGS = 5_000_000
TASK_READINGS = 2_000_000
_ATTEMPTS = 3

Row = dict[str, Any]


class _OvertakenError(Exception):
    """A commit came in between two looks at what is stored."""


def replay_subject(
    connection: Connection,
    runner: Runner,
    dataset: Dataset,
    subject_key: str,
    *,
    lake: Lake,
    from_us: int,
    to_us: int,
    on_step: Callable[[], None] = lambda: None,
) -> SubjectReplayed:
    """Replay the segments of a subject that start in a span. Nothing is changed: what is made lies in a scratch folder.

    Commits that come in meanwhile make it begin anew; where they do not cease, that is a finding.
    """
    for _ in range(_ATTEMPTS):
        try:
            with lake.scratch_folder() as folder:
                return _SubjectReplay(
                    connection, runner, dataset, subject_key, lake=lake, folder=folder, on_step=on_step
                ).run(from_us, to_us)
        except _OvertakenError:
            on_step()
    result = SubjectReplayed()
    result.note([not_compared(dataset, subject_key, "it is being changed all the time; run again later")])
    return result


class _SubjectReplay:
    def __init__(
        self,
        connection: Connection,
        runner: Runner,
        dataset: Dataset,
        subject_key: str,
        *,
        lake: Lake,
        folder: Path,
        on_step: Callable[[], None],
    ) -> None:
        self.connection = connection
        self.runner = runner
        self.dataset = dataset
        self.subject_key = subject_key
        self.lake = lake
        self.folder = folder
        self.on_step = on_step
        self.result = SubjectReplayed()
        self.commit_seq = replays.newest_commit_seq(connection, subject_key, dataset.name)
        self.stored = verification.load_subject(connection, subject_key, with_numbers=False)
        self.sealed = self.stored.sealed_segments(dataset.name)
        version = self.stored.versions.get(dataset.name)
        self.before = (
            dataset
            if version is None or version == dataset.version
            else definitions.load_definition(connection, dataset.name, version)
        )
        self.sources = FreshSources(connection, runner, dataset, self.before, self.stored)
        self.kept: dict[int, list[FragmentEntry]] = defaultdict(list)
        active = [
            each for each in self.stored.fragments.get(dataset.name, ()) if each.state is FragmentState.ACTIVE
        ]
        for each in catalog.with_arrivals(connection, dataset, active):
            self.kept[each.segment_us].append(each)

    def run(self, from_us: int, to_us: int) -> SubjectReplayed:
        """Replay and compare, some segments at a time."""
        if self.before.segment_length_us != self.dataset.segment_length_us:
            self._note_other_length()
            return self.result
        if self.dataset.name in self.stored.stale_from_us:
            reason = "its bases wait for a shift; run again after it"
            self.result.note([not_compared(self.dataset, self.subject_key, reason)])
        every: Sequence[Row] = self.stored.segments.get(self.dataset.name, ())
        within = [row for row in every if from_us <= row["segment_us"] <= to_us]
        rows = sorted(within, key=lambda row: row["segment_us"])
        bases = self._bases(from_us)
        slices = _slices(rows)
        # From one end of the span to the other: what the files say where nothing is stored is found as well.
        starts = [from_us, *(group[0]["segment_us"] for group in slices[1:]), to_us + 1]
        for number, group in enumerate(slices):
            folder = self.folder / f"{number:05d}"
            folder.mkdir()
            self._replay_slice(group, bases, folder, first_us=starts[number], last_us=starts[number + 1] - 1)
            self.on_step()
        return self.result

    def _bases(self, first_us: int) -> CarriedBases:
        """What bases are carried on from: the pieces before the first segment, of metrics that mean the same."""
        seeds = replays.load_last_summaries(
            self.connection, self.dataset.name, self.subject_key, before_us=first_us
        )
        compared = {metric.name for metric in self.dataset.metrics}
        if seeds:
            same = {*unchanged_names(self.before.metrics, self.dataset.metrics)}
            reason = (
                "its definition is another, and its values follow from the whole history: replay all of it"
            )
            self.result.note(
                not_compared(self.dataset, self.subject_key, reason, name=name)
                for name in sorted(compared - same)
            )
            compared &= same
        return CarriedBases(
            self.connection,
            self.dataset,
            self.subject_key,
            seeds=[row for row in seeds if row["metric"] in compared],
            compared=compared,
            stale_from_us=self.stored.stale_from_us.get(self.dataset.name),
        )

    def _replay_slice(
        self, rows: Sequence[Row], bases: CarriedBases, folder: Path, *, first_us: int, last_us: int
    ) -> None:
        name = self.dataset.name
        with snapshot(self.connection):
            self._refuse_overtaken()
            summaries = replays.load_span_summaries(
                self.connection, name, self.subject_key, from_us=first_us, to_us=last_us
            )
            parts = replays.load_span_rollup_parts(
                self.connection, name, self.subject_key, from_us=first_us, to_us=last_us
            )
        sources = self.sources.of_span(first_us, last_us, folder=folder)
        self.on_step()
        segments = self._segments(rows, sources, summaries=summaries, parts=parts)
        replayed = self.runner.run(replay_segments, self._tasks(segments))
        # What was found of numbers that changed meanwhile says nothing.
        self._refuse_overtaken()
        self.result.files += sources.files
        self.result.segments += len(segments)
        self.result.note(sources.findings)
        for each in replayed:
            self.result.readings += each.readings
            self.result.rollup_parts += each.rollup_parts
            self.result.note(each.findings, differences=each.differences)
            self._note_to_make_anew(each.segments, sources)
        if not self.dataset.metrics:
            return
        compared = {segment.segment_us for segment in segments}
        made = [row for each in replayed for table in each.summaries for row in table.to_pylist()]
        # Taken as they are stored: what is right of them has to follow from them.
        made += [row for row in summaries if row["segment_us"] not in compared]
        self.result.bases += len(made)
        found, count = bases.compare(made, summaries, frontier_us=first_us)
        self.result.note(found, differences=count)
        # From the first one on, all bases follow from what is before them.
        first = min((each.segment_us for each in found if each.segment_us is not None), default=None)
        self._note_to_make_anew(set() if first is None else {first}, sources)

    def _refuse_overtaken(self) -> None:
        newest = replays.newest_commit_seq(self.connection, self.subject_key, self.dataset.name)
        if newest != self.commit_seq:
            raise _OvertakenError

    def _note_to_make_anew(self, segments: set[int], sources: SpanSources) -> None:
        for at_us in segments:
            files = {each.source_uri for each in self.kept[at_us]}
            files |= {each.entry.source_uri for each in sources.fresh.get(at_us, ())}
            self.result.to_make_anew[at_us] = files - sources.failed.keys()

    def _segments(
        self,
        rows: Sequence[Row],
        sources: SpanSources,
        *,
        summaries: Sequence[Row],
        parts: Sequence[Row],
    ) -> list[SegmentReplay]:
        """The segments of a slice: of which anything is stored, or of which the files say something now."""
        of_rows = {row["segment_us"]: row for row in rows}
        of_summaries, of_parts = _by_segment(summaries), _by_segment(parts)
        found = []
        for segment_us in sorted({*of_rows, *of_summaries, *of_parts, *sources.fresh} - self.sealed):
            fresh = tuple(sources.fresh.get(segment_us, ()))
            stands_in = self._standing_in(
                segment_us, {each.entry.order_key for each in fresh}, sources.failed
            )
            if stands_in and self.before.parse_version != self.dataset.parse_version:
                uri = stands_in[0].source_uri
                reason = f"{uri} cannot be read again, and what is kept of it was read otherwise"
                self.result.note(
                    [not_compared(self.dataset, self.subject_key, reason, segment_us=segment_us)]
                )
                continue
            row = of_rows.get(segment_us)
            found.append(
                SegmentReplay(
                    segment_us=segment_us,
                    readings=0 if row is None else row["readings"],
                    fresh=fresh,
                    kept=tuple(self.kept[segment_us]),
                    stands_in=stands_in,
                    row=None if row is None else {key: row[key] for key in COMPARED_OF_SEGMENTS},
                    summaries=SUMMARIES.table(of_summaries[segment_us]),
                    rollup_parts=ROLLUP_PARTS.table(of_parts[segment_us]),
                )
            )
        return found

    def _standing_in(
        self, segment_us: int, answered: set[str], failed: Mapping[str, str]
    ) -> tuple[FragmentEntry, ...]:
        """What the lake keeps of files that prove nothing, and of what they said before they were replaced."""
        generations = {file.source_uri: file.fingerprint.generation for file in self.stored.files}
        return tuple(
            each
            for each in self.kept[segment_us]
            if each.order_key not in answered
            and (
                each.source_uri in failed
                or generations.get(each.source_uri, each.generation) != each.generation
            )
        )

    def _tasks(self, segments: Sequence[SegmentReplay]) -> list[ReplaySegments]:
        weights = [max(segment.readings, 1) for segment in segments]
        count = task_count(weights, cores=self.runner.cores, most_per_task=TASK_READINGS)
        spec = scan_spec_of(self.dataset, self.subject_key)
        return [
            ReplaySegments(
                self.dataset.name,
                self.subject_key,
                spec,
                self.dataset.segment_length_us,
                str(self.lake.root),
                tuple(segments[index] for index in indices),
            )
            for indices in pack_by_weight(weights, tasks=count)
        ]

    def _note_other_length(self) -> None:
        difference = ReplayFinding(
            kind=FindingKind.DIFFERENT,
            dataset=self.dataset.name,
            subject_key=self.subject_key,
            segment_us=None,
            what="length of segments",
            stored=f"{self.before.segment_length_us} us",
            replayed=f"{self.dataset.segment_length_us} us",
        )
        reason = "its segments have another length, and every number of them is another"
        self.result.note([difference, not_compared(self.dataset, self.subject_key, reason)])


def _slices(rows: Sequence[Row]) -> list[list[Row]]:
    """The segments in order, cut where they add up to more than is held at a time; one slice at least."""
    found: list[list[Row]] = [[]]
    held = 0
    for row in rows:
        if found[-1] and held + row["readings"] > SLICE_READINGS:
            found.append([])
            held = 0
        found[-1].append(row)
        held += row["readings"]
    return found


def _by_segment(rows: Sequence[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["segment_us"]].append(row)
    return found
