"""What a verification compared, and what it found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from disarray.engine.verification.comparison import Difference
    from disarray.engine.verification.sources import Unproven


@dataclass(frozen=True, slots=True)
class NotCompared:
    """Numbers of a subject that are known not to be final: `reason` says what has to happen first."""

    dataset: str
    subject_key: str
    reason: str
    stale_from_us: int | None = None


@dataclass(frozen=True, slots=True)
class SealedSegments:
    """Segments of which only the numbers are kept: bases are checked on top of them, they themselves cannot be."""

    dataset: str
    subject_key: str
    segments: int
    readings: int


@dataclass(slots=True)
class VerificationReport:
    """What was compared, what differs (the first of each kind), and what proves nothing."""

    subjects: int = 0
    subjects_left: int = 0  # for which the time was too short
    is_part: bool = False  # some segments or datasets were left out, and are believed
    verified_before: int = 0  # by the same run, before it was broken off
    verdicts_before: dict[str, int] = field(
        default_factory=dict
    )  # of these, but for those that are identical
    files: int = 0
    readings: int = 0
    segments: int = 0
    bases: int = 0
    rollup_parts: int = 0
    differences: list[Difference] = field(default_factory=list)
    unproven: list[Unproven] = field(default_factory=list)
    not_compared: list[NotCompared] = field(default_factory=list)
    sealed: list[SealedSegments] = field(default_factory=list)

    def is_identical(self, *, allow_vanished: bool = False) -> bool:
        """Whether everything is stored as the files say; sources that are gone count only if that is allowed.

        Sealed segments prove nothing either way: report `sealed` beside the answer. What a run found before it was
        broken off counts, as it was judged then.
        """
        unproven = self.unproven and not allow_vanished
        return not (self.differences or self.not_compared or unproven or self.verdicts_before)

    def marks(self) -> tuple[int, int, int]:
        """How much was found so far."""
        return len(self.differences), len(self.unproven), len(self.not_compared)

    def since(self, marks: tuple[int, int, int]) -> VerificationReport:
        """What was found since."""
        differences, unproven, not_compared = marks
        return VerificationReport(
            differences=self.differences[differences:],
            unproven=self.unproven[unproven:],
            not_compared=self.not_compared[not_compared:],
        )

    def about(self, subject_keys: Collection[str]) -> VerificationReport:
        """What was found of these subjects."""
        return VerificationReport(
            differences=[each for each in self.differences if each.subject_key in subject_keys],
            unproven=[each for each in self.unproven if each.subject_key in subject_keys],
            not_compared=[each for each in self.not_compared if each.subject_key in subject_keys],
        )

    def add(self, other: VerificationReport) -> None:
        """Take over what another one found."""
        self.differences += other.differences
        self.unproven += other.unproven
        self.not_compared += other.not_compared
