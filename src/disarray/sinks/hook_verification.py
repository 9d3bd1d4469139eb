"""What hooks are told of a verification that found something wrong: one message for each subject and dataset."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from disarray.control.connections import transaction
from disarray.control.side_effects import note_side_effects
from disarray.model.side_effect import HookCause

if TYPE_CHECKING:
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.engine.verification.verification_report import VerificationReport

MOST_DIFFERENCES = 20


def note_failed_verification(
    connection: Connection, report: VerificationReport, *, verification_id: UUID, allow_vanished: bool = False
) -> int:
    """Note all that differs, and what could not be proven unless that is allowed, at once; how many messages.

    Numbers that are known not to be final are no failure, and nobody is told of them. Of one verification a subject and
    dataset is told once, however often it is noted.
    """
    found: defaultdict[tuple[str, str | None], list[dict[str, Any]]] = defaultdict(list)
    for difference in report.differences:
        found[difference.subject_key, difference.dataset].append(asdict(difference))
    for unproven in () if allow_vanished else report.unproven:
        found[unproven.subject_key, None].append(asdict(unproven))
    noted = 0
    with transaction(connection):
        for (subject_key, dataset), findings in found.items():
            what = "differ from what the files say" if dataset else "cannot be proven by their files"
            noted += note_side_effects(
                connection,
                HookCause.VERIFICATION_FAILED,
                subject_key=subject_key,
                dataset=dataset,
                occasion=f"verification {verification_id}",
                summary=f"numbers of {subject_key} {what}",
                details={
                    "verification_id": str(verification_id),
                    "findings": findings[:MOST_DIFFERENCES],
                    "finding_count": len(findings),
                },
            )
    return noted
