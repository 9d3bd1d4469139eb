"""What a run of `verify` writes down about each subject as soon as it is known: a run that is broken off can go on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from disarray.control import verification_runs
from disarray.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.control.verification_runs import VerifiedSubject
    from disarray.engine.verification.comparison import Difference
    from disarray.engine.verification.sources import Unproven
    from disarray.engine.verification.verification_report import NotCompared, VerificationReport

MOST_FINDINGS = 20


class Verdict(StrEnum):
    """What a verification says of a subject; the last that holds."""

    IDENTICAL = "identical"
    IDENTICAL_IN_PART = "identical_in_part"  # as far as it was ever recomputed
    UNPROVEN = "unproven"  # a source is gone or was replaced; what is kept of it follows from nothing else
    NOT_FINAL = "not_final"  # what is stored is known to change yet
    DIFFERENT = "different"


@dataclass(slots=True)
class VerificationRecord:
    """One run in the database."""

    verification_id: UUID
    selection: Mapping[str, Any]
    allow_vanished: bool = False
    is_resumed: bool = False
    refusal: str | None = None  # why nothing is written down: whoever may only read can verify all the same

    def start(self, connection: Connection, subjects: Sequence[VerifiedSubject]) -> None:
        """Write down what is to be covered; one that goes on is written down already."""
        if self.is_resumed:
            return
        try:
            verification_runs.start_verification(
                connection,
                self.verification_id,
                selection=self.selection,
                subjects=len(subjects),
                readings=sum(each.readings for each in subjects),
            )
        except ControlError as error:
            self.refusal = str(error)

    def note(
        self,
        connection: Connection,
        subjects: Sequence[VerifiedSubject],
        report: VerificationReport,
    ) -> None:
        """Write down what was found out about each of these subjects."""
        if self.refusal is not None:
            return
        found = _findings(report, allow_vanished=self.allow_vanished)
        for subject in subjects:
            verdict, findings = found.get(subject.subject_key, (Verdict.IDENTICAL, []))
            verification_runs.note_subject_verification(
                connection,
                self.verification_id,
                subject.subject_key,
                verdict=verdict,
                readings=subject.readings,
                findings=findings[:MOST_FINDINGS],
                finding_count=len(findings),
            )

    def end(self, connection: Connection) -> None:
        """Write down that all is done that was to be done."""
        if self.refusal is None:
            verification_runs.end_verification(connection, self.verification_id)


def _findings(
    report: VerificationReport, *, allow_vanished: bool
) -> dict[str, tuple[Verdict, list[dict[str, Any]]]]:
    """By subject that is not identical: the verdict, and what speaks for it, the gravest first."""
    found: dict[str, tuple[Verdict, list[dict[str, Any]]]] = {}
    graded: list[tuple[Verdict, list[Difference] | list[NotCompared] | list[Unproven]]] = [
        (Verdict.DIFFERENT, report.differences),
        (Verdict.NOT_FINAL, report.not_compared),
        (Verdict.UNPROVEN, [] if allow_vanished else report.unproven),
    ]
    by_subject: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for verdict, findings in graded:
        for each in findings:
            by_subject[each.subject_key].append(asdict(each))
            found.setdefault(each.subject_key, (verdict, by_subject[each.subject_key]))
    return found
