"""What is known of all subjects from the newest verification of each."""

from dataclasses import dataclass
from datetime import datetime

from disarray.control import verification_runs
from disarray.control.connections import Connection


@dataclass(frozen=True, kw_only=True)
class Verification:
    """When was last verified, and how many subjects are what their files say.

    `subjects_identical`, `…_identical_in_part` (only a sample, some time or some dataset of them was ever recomputed),
    `…_different`, `…_unproven` (a source is gone or was replaced), `…_not_final` (a change waits) and `…_never` are all
    subjects together. `different` names the first that differ. `oldest_verified_at` counts from when a subject was last
    verified whole, if it ever was.
    """

    last_started_at: datetime | None
    last_ended_at: datetime | None
    oldest_verified_at: datetime | None
    subjects_identical: int
    subjects_identical_in_part: int
    subjects_different: int
    subjects_unproven: int
    subjects_not_final: int
    subjects_never: int
    different: list[str]


def show_verification(connection: Connection) -> Verification:
    """The verdicts of all subjects, counted."""
    state = verification_runs.verification_state(connection)
    others = (
        state.partly_verified_subjects
        + state.different_subjects
        + state.unproven_subjects
        + state.not_final_subjects
    )
    return Verification(
        last_started_at=state.started_at,
        last_ended_at=state.ended_at,
        oldest_verified_at=state.oldest_verified_at,
        subjects_identical=state.verified_subjects - others,
        subjects_identical_in_part=state.partly_verified_subjects,
        subjects_different=state.different_subjects,
        subjects_unproven=state.unproven_subjects,
        subjects_not_final=state.not_final_subjects,
        subjects_never=state.unverified_subjects,
        different=list(state.different_keys),
    )
