"""What a replay of one subject compared and found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.model.replay_finding import FindingKind, ReplayFinding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disarray.model.description.dataset import Dataset

MAX_LISTED = 100


@dataclass(slots=True)
class SubjectReplayed:
    """What was compared, and what was found; of each kind of finding the first are listed, and all are counted.

    `to_make_anew` are the segments to scan again, each with the files that say something of it: with these, an order of
    the queue makes the numbers that were found here.
    """

    files: int = 0
    segments: int = 0
    readings: int = 0
    bases: int = 0
    rollup_parts: int = 0
    differences: int = 0
    unproven: int = 0
    not_compared: int = 0
    findings: list[ReplayFinding] = field(default_factory=list)
    to_make_anew: dict[int, set[str]] = field(default_factory=dict)

    def note(self, found: Iterable[ReplayFinding], *, differences: int | None = None) -> None:
        """Keep findings, as many as are listed; where `differences` is given, there are so many of that kind."""
        listed = list(found)
        for kind in FindingKind:
            own = [each for each in listed if each.kind is kind]
            room = MAX_LISTED - sum(each.kind is kind for each in self.findings)
            self.findings += own[: max(room, 0)]
            match kind:
                case FindingKind.DIFFERENT:
                    self.differences += len(own) if differences is None else differences
                case FindingKind.UNPROVEN:
                    self.unproven += len(own)
                case FindingKind.NOT_COMPARED:
                    self.not_compared += len(own)


def unproven(dataset: Dataset, subject_key: str, source_uri: str, reason: str) -> ReplayFinding:
    """A file that can no longer be asked: what is kept of it stood in for it."""
    return ReplayFinding(
        kind=FindingKind.UNPROVEN,
        dataset=dataset.name,
        subject_key=subject_key,
        segment_us=None,
        what="file",
        name=source_uri,
        stored="kept",
        replayed=reason,
    )


def not_compared(
    dataset: Dataset, subject_key: str, reason: str, *, name: str = "", segment_us: int | None = None
) -> ReplayFinding:
    """Numbers of which nothing can be said now."""
    return ReplayFinding(
        kind=FindingKind.NOT_COMPARED,
        dataset=dataset.name,
        subject_key=subject_key,
        segment_us=segment_us,
        what="numbers",
        name=name,
        replayed=reason,
    )
