"""Work that needs segments which the lake does not give, parted from the work on the same subjects that does not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.engine.jobs.scan_job import SegmentOfSubject
    from disarray.model.plan import SubjectPlan
    from disarray.worker.passes.assignment import Assignment
    from disarray.worker.passes.subject_pass import SubjectPass
    from disarray.worker.passes.work import Work


@dataclass(frozen=True, slots=True)
class SpoiledWork:
    """Subjects that cannot be committed as planned.

    What is `waiting` needs a segment that cannot be read, each with the reason. What is `unharmed` needs none, and can
    be done without it.
    """

    subjects: list[str] = field(default_factory=list)
    waiting: list[tuple[Work, str]] = field(default_factory=list)
    unharmed: list[Assignment] = field(default_factory=list)


def spoiled_work(subjects: Sequence[SubjectPass], failures: Mapping[SegmentOfSubject, str]) -> SpoiledWork:
    """Sort out the work on subjects of which scans failed."""
    spoiled = SpoiledWork()
    lost: dict[str, dict[tuple[str, int], str]] = defaultdict(dict)
    for (dataset, subject_key, segment_us), message in failures.items():
        lost[subject_key][dataset, segment_us] = message
    for subject in subjects:
        segments = lost.get(subject.subject_key)
        if segments is None:
            continue
        spoiled.subjects.append(subject.subject_key)
        planned = subject.planned
        # A rebuild moves all of a subject at once, and so does a file that leaves it; work on a whole subject is about
        # every segment.
        is_whole = bool(
            planned.leaving or planned.left or any(plan.rebuild is not None for plan in planned.plans)
        )
        touching = _touching(planned.plans, segments)
        anything = next(iter(segments.values()))
        for each in subject.work:
            uri = each.item.source_uri
            own = None if uri is None else touching.get(uri)
            if own is not None or is_whole or uri is None:
                spoiled.waiting.append((each, own or anything))
            else:
                spoiled.unharmed.append(each.assignment)
    return spoiled


def _touching(plans: Sequence[SubjectPlan], segments: Mapping[tuple[str, int], str]) -> dict[str, str]:
    """The files that change a segment which cannot be read, and why it cannot."""
    return {
        fragment.source_uri: segments[plan.dataset, fragment.segment_us]
        for plan in plans
        for changed in (
            plan.changes.added,
            plan.changes.dropped,
            plan.changes.cut,
            plan.changes.released,
            plan.changes.restored,
        )
        for fragment in changed
        if (plan.dataset, fragment.segment_us) in segments
    }
