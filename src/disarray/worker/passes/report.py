"""What a pass did, as a person would tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.commits import DatasetChange
    from disarray.control.queue import QueueId
    from disarray.kernels.parsing.rejects import Reject
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.plan import SubjectPlan
    from disarray.worker.upkeep.subject_upkeep import KeptSubject


class Arrival(StrEnum):
    """What a pass turned out to be. One code path serves all of them; only the cost differs."""

    FIRST = "first data"
    APPEND = "append"
    LATE = "late"
    NOTHING_NEW = "nothing new"
    REBUILT = "rebuilt under a new definition"


def arrival_of(*, changed_from_us: int | None, newest_segment_us: int | None) -> Arrival:
    """Late is what changes a segment that has others to its right."""
    if changed_from_us is None:
        return Arrival.NOTHING_NEW
    if newest_segment_us is None:
        return Arrival.FIRST
    return Arrival.APPEND if changed_from_us >= newest_segment_us else Arrival.LATE


@dataclass(frozen=True, slots=True)
class FileRejects:
    """How many of the rows that were read of a file are no readings, and the first of them."""

    source_uri: str
    rejected: int
    rows: int
    first: Reject


def rejects_of(source_uri: str | None, outcome: ReadOutcome | None) -> FileRejects | None:
    """What was rejected in a read; None where nothing was."""
    if source_uri is None or outcome is None or not outcome.rejects:
        return None
    rejected = outcome.counts.rejected
    return FileRejects(source_uri, rejected, rejected + outcome.counts.kept, outcome.rejects[0])


@dataclass(frozen=True, slots=True)
class CommittedPlan:
    """A plan, and what its commit really changed."""

    plan: SubjectPlan
    change: DatasetChange
    conflicts: tuple[int, int] = (0, 0)  # readings that came and disagree with others: winners, losers

    @property
    def arrival(self) -> Arrival:
        """What the pass was for this subject."""
        if self.plan.rebuild is not None:
            return Arrival.REBUILT
        return arrival_of(
            changed_from_us=self.change.frontier_us, newest_segment_us=self.change.newest_segment_us
        )


@dataclass(frozen=True, slots=True)
class PassReport:
    """What became of a batch: every item is completed, failed with a message, lost or given back with its subject."""

    completed: tuple[QueueId, ...] = ()
    failed: Mapping[QueueId, str] = field(default_factory=dict)
    lost_subjects: tuple[str, ...] = ()
    given_back: tuple[str, ...] = ()  # subjects whose backfill gives way to live work
    plans: tuple[SubjectPlan, ...] = ()
    committed: tuple[CommittedPlan, ...] = ()
    rejects: tuple[FileRejects, ...] = ()
    kept: tuple[KeptSubject, ...] = ()


def joined(reports: Sequence[PassReport]) -> PassReport:
    """The report of several passes as one."""
    return PassReport(
        completed=tuple(queue_id for report in reports for queue_id in report.completed),
        failed={queue_id: text for report in reports for queue_id, text in report.failed.items()},
        lost_subjects=tuple(subject for report in reports for subject in report.lost_subjects),
        given_back=tuple(subject for report in reports for subject in report.given_back),
        plans=tuple(plan for report in reports for plan in report.plans),
        committed=tuple(commit for report in reports for commit in report.committed),
        rejects=tuple(rejects for report in reports for rejects in report.rejects),
        kept=tuple(kept for report in reports for kept in report.kept),
    )
