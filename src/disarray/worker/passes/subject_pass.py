"""One subject on its way through a pass: read, planned, scanned. Each stage adds to it, none changes it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from disarray.worker.passes.planning import SubjectPlans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.file_parts import PartDelivery
    from disarray.engine.jobs.scan_job import ScannedSegment, SegmentOfSubject
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.fragments import LakeFile
    from disarray.model.plan import SubjectPlan
    from disarray.worker.passes.reading import BatchRead
    from disarray.worker.passes.work import Work


@dataclass(frozen=True, slots=True)
class SubjectPass:
    """The work on one subject, and what the stages up to now found out about it.

    `files` are those that job 1 wrote, and `scanned` what job 2 gave, for all subjects of the pass.
    """

    subject_key: str
    work: tuple[Work, ...]
    files: Sequence[LakeFile] = ()
    read_again: Mapping[str, ReadOutcome] = field(
        default_factory=dict
    )  # of a rebuild or a swap, without an item
    waiting: Mapping[str, Sequence[PartDelivery]] = field(default_factory=dict)  # for parts, by uri
    taken: Mapping[str, PartDelivery] = field(default_factory=dict)  # what of it is taken in, by uri
    planned: SubjectPlans = field(default_factory=SubjectPlans)
    scanned: Mapping[SegmentOfSubject, ScannedSegment] = field(default_factory=dict)

    @property
    def plans(self) -> Sequence[SubjectPlan]:
        """What it changes, a plan for each dataset."""
        return self.planned.plans

    def with_plans(self, planned: SubjectPlans, read: BatchRead) -> SubjectPass:
        """What it changes is known; work that waits for a rebuild is left out from here on."""
        return replace(
            self,
            planned=planned,
            work=tuple(each for each in self.work if each.assignment.dataset_subject not in planned.blocked),
            read_again={
                uri: outcome
                for plan in planned.plans
                for uri, outcome in read.read_again.get((plan.dataset, self.subject_key), {}).items()
            }
            | {
                uri: outcome
                for swap in planned.swaps
                for uri, outcome in read.swaps[swap.key].outcomes.items()
            },
        )


def by_subject(work: Sequence[Work], read: BatchRead) -> list[SubjectPass]:
    """The work of a pass, subject by subject."""
    found: dict[str, list[Work]] = defaultdict(list)
    for each in work:
        found[each.item.subject_key].append(each)
    return [
        SubjectPass(subject, tuple(own), files=read.job.files, waiting=read.waiting, taken=read.taken)
        for subject, own in found.items()
    ]
