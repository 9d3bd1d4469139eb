"""An independent recompute of everything that is stored: from the files, in other code than the kernels.

The parser is the one of the pipeline, run over whole files; order, keys, expressions, folds, bases and rollup parts
are made anew. What comes out must be what is stored, bit for bit; and a fold over each whole history must agree to
within rounding. Three jobs: sources into scratch files, ranges of segments, one chain of summaries for each subject.
Readings and rows of the catalog stay in files: what goes through the driver are descriptors.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from disarray.engine.verification.base_check import ChainTask, SubjectChain, check_bases
from disarray.engine.verification.comparison import MAX_LISTED
from disarray.engine.verification.range_check import RangeTask, check_ranges
from disarray.engine.verification.ranges import ranges_of
from disarray.engine.verification.sources import gather_sources
from disarray.engine.verification.verification_report import NotCompared, SealedSegments
from disarray.model.packing import pack_by_weight, task_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from disarray.control.verification import StoredSubject
    from disarray.engine.verification.comparison import Difference
    from disarray.engine.verification.progress import Progress
    from disarray.engine.verification.range_check import CheckedRanges
    from disarray.engine.verification.selection import Selection
    from disarray.engine.verification.sources import Sources
    from disarray.engine.verification.stored_rows import StoredRows
    from disarray.engine.verification.verification_report import VerificationReport
    from disarray.engine.verification.waves import Waves
    from disarray.model.description.dataset import Dataset
    from disarray.store.lake import Lake

TASK_READINGS = 2_000_000
_SUMMARY_GROUPS = 1_000


class Recompute:
    """One dataset of some subjects."""

    def __init__(
        self,
        waves: Waves,
        dataset: Dataset,
        subjects: Sequence[StoredSubject],
        *,
        summaries: Mapping[str, StoredRows],
        rollup_rows: Mapping[str, StoredRows],
        lake: Lake,
        folder: Path,
        report: VerificationReport,
        selection: Selection,
        progress: Progress,
        on_step: Callable[[str], None],
    ) -> None:
        self.on_step = on_step
        self.selection = selection
        self.progress = progress
        self.waves = waves
        self.dataset = dataset
        self.subjects = subjects
        self.summaries = summaries
        self.rollup_rows = rollup_rows
        self.lake = lake
        self.folder = folder
        self.report = report
        self.stale = {
            each.subject_key: each.stale_from_us[dataset.name]
            for each in subjects
            if dataset.name in each.stale_from_us
        }
        self.blocks = {
            each.subject_key: each.block_lengths_us[dataset.name]
            for each in subjects
            if dataset.name in each.block_lengths_us
        }
        self.sealed = {each.subject_key: each.sealed_segments(dataset.name) for each in subjects}

    def run(self, now_us: int) -> None:
        """Recompute and compare."""
        self._note_what_is_stored()
        sources = gather_sources(
            self.waves,
            self.dataset,
            self.subjects,
            lake=self.lake,
            folder=self.folder,
            now_us=now_us,
            selection=self.selection,
        )
        self.report.files += len(sources.reads)
        self.report.unproven += sources.unproven
        self._step(f"comparing readings and rollups, files read: {len(sources.reads):,}")
        checked = self._check_ranges(sources)
        if self.dataset.metrics:
            self._step("comparing metrics")
            self._check_bases(checked)

    def _step(self, what: str) -> None:
        self.on_step(f"{self.dataset.name}: {what}")

    def _check_ranges(self, sources: Sources) -> list[CheckedRanges]:
        ranges = ranges_of(
            self.dataset,
            self.subjects,
            sources,
            rollup_rows=self.rollup_rows,
            selection=self.selection,
        )
        weights = [each.readings for each in ranges]
        count = task_count(weights, cores=self.waves.runner.cores, most_per_task=TASK_READINGS)
        tasks = [
            RangeTask(
                dataset=self.dataset,
                ranges=tuple(ranges[index] for index in indices),
                scratch_file=str(self.folder / f"{self.dataset.name}-range-{number:05d}"),
            )
            for number, indices in enumerate(pack_by_weight(weights, tasks=count))
        ]
        checked = self.waves.run(
            check_ranges,
            tasks,
            lambda some: self.progress.advance(sum(each.readings for task in some for each in task.ranges)),
        )
        self.report.rollup_parts += sum(each.rollup_parts for task in checked for each in task.ranges)
        self._note(each for task in checked for own in task.ranges for each in own.differences)
        return checked

    def _check_bases(self, checked: Sequence[CheckedRanges]) -> None:
        row_groups: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for task in checked:
            for each in task.ranges:
                if each.summaries:
                    row_groups[each.subject_key].append((task.scratch_file, each.row_group))
        chains = [
            SubjectChain(
                subject_key=key,
                recomputed=tuple(row_groups.get(key, ())),
                stored=self.summaries.get(key),
                sealed=self.sealed[key],
                selection=self.selection,
                stale_from_us=self.stale.get(key),
                block_us=self.blocks.get(key),
            )
            for key in self.sealed
        ]
        weights = [chain.weight for chain in chains]
        count = task_count(weights, cores=self.waves.runner.cores, most_per_task=_SUMMARY_GROUPS)
        tasks = [
            ChainTask(dataset=self.dataset, chains=tuple(chains[index] for index in indices))
            for indices in pack_by_weight(weights, tasks=count)
        ]
        found = self.waves.run(check_bases, tasks)
        self.report.bases += sum(each.bases for each in found)
        self._note(each for some in found for each in some.differences)

    def _note_what_is_stored(self) -> None:
        self.report.not_compared += [
            NotCompared(
                self.dataset.name, subject, "its bases wait for a shift; run again after it", stale_us
            )
            for subject, stale_us in sorted(self.stale.items())
        ]
        for subject in self.subjects:
            sealed = self.sealed[subject.subject_key]
            rows = subject.segments.get(self.dataset.name, ())
            own = self.selection.only(
                subject.subject_key,
                (row["segment_us"] for row in rows),
                length_us=self.dataset.segment_length_us,
            )
            rows = [row for row in rows if row["segment_us"] in own]
            kept = [row["readings"] for row in rows if row["segment_us"] in sealed]
            if kept:
                self.report.sealed.append(
                    SealedSegments(self.dataset.name, subject.subject_key, len(kept), sum(kept))
                )
            self.report.segments += len(rows) - len(kept)
            self.report.readings += sum(row["readings"] for row in rows) - sum(kept)

    def _note(self, found: Iterable[Difference]) -> None:
        """Keep the first of each kind, in the order of subjects and time, and one at least of each subject.

        What one subject has too much of hides nothing of another: each has a verdict of its own.
        """
        kinds: dict[str, list[Difference]] = defaultdict(list)
        for each in found:
            kinds[each.what].append(each)
        for some in kinds.values():
            some.sort(key=lambda each: (each.subject_key, each.segment_us or 0, each.name, each.channel))
            first = {each.subject_key: each for each in reversed(some)}
            listed = some[:MAX_LISTED]
            seen_subjects = {each.subject_key for each in listed}
            self.report.differences += listed
            self.report.differences += [first[key] for key in sorted(first.keys() - seen_subjects)]
