"""What a load would delete of its target, and how much of it may go without somebody having said so.

A control database that is empty, or was restored by mistake, knows next to nothing. All that a target has beyond that
is then unasked for, and may be the only copy there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.errors import ExcessiveDeletesError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.destinations import LoadTurn

# Nothing is more than all of it.
NEVER_REFUSED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletes:
    """How many subjects and rows of a target would go, and of how many."""

    subjects: int
    of_subjects: int
    rows: int
    of_rows: int

    def exceed(self, percent: int) -> bool:
        """Whether that is more than such a share of the subjects, or of the rows."""
        return self.subjects * 100 > percent * self.of_subjects or self.rows * 100 > percent * self.of_rows

    def __str__(self) -> str:
        return (
            f"{self.subjects:,} of {self.of_subjects:,} subjects with {self.rows:,} of {self.of_rows:,} rows"
        )


def deletes_of(rows: Mapping[str, int], unasked: Sequence[str], *, other_rows: int = 0) -> Deletes:
    """What goes with some subjects of a target that has so many rows of each; `other_rows` go as well."""
    # One that was swept before is known by its position, and has no rows.
    return Deletes(
        subjects=sum(1 for each in unasked if rows[each]),
        of_subjects=sum(1 for count in rows.values() if count),
        rows=sum(rows[each] for each in unasked) + other_rows,
        of_rows=sum(rows.values()) + other_rows,
    )


def excess_of(name: str, deletes: Deletes, *, percent: int) -> ExcessiveDeletesError | None:
    """Why a destination may not be cleared of subjects that are not asked for; None where it may."""
    if not deletes.exceed(percent):
        return None
    return ExcessiveDeletesError(
        f"the target of {name} has {deletes} that this database does not ask for, more than {percent} %. "
        f"{_advice(name)}"
    )


@dataclass(frozen=True, slots=True)
class KeptShare:
    """How many rows of a subject a load has to leave, because nobody here knows who loaded them.

    A row survives where one of the same key is loaded. As many others in its place would hide that it is gone.
    """

    destination: str
    subject_key: str
    before: int
    percent: int

    def check(self, gone: int) -> None:
        """Refuse a load that takes away so many of them, where that is too much."""
        if gone * 100 > self.percent * self.before:
            raise ExcessiveDeletesError(
                f"the target of {self.destination} has {self.before:,} rows of {self.subject_key} that were loaded "
                f"by another history than that of this database, and {gone:,} of them would go, more than "
                f"{self.percent} %. "
                f"{_advice(self.destination)}"
            )


def is_guarded(turn: LoadTurn, former_fence: int, *, has_fences: bool, percent: int) -> bool:
    """Whether rows of a subject have to be counted before a load takes any of them away."""
    is_refused = not turn.are_deletes_allowed and percent < NEVER_REFUSED
    return is_refused and is_foreign(turn, former_fence, has_fences=has_fences)


def is_foreign(turn: LoadTurn, former_fence: int, *, has_fences: bool) -> bool:
    """Whether what a target has of a subject comes from a load that this database does not know of.

    Beside a table of our own database there are no fences: there it is all that is there before our first load.
    Elsewhere a fence that is not there is that of nobody: another database may be behind the same variable.
    """
    if not former_fence:
        return turn.is_first or has_fences
    known = turn.known_fences
    # The negative of one of ours: pieces of our own load are missing.
    return known is not None and abs(former_fence) not in known


def _advice(name: str) -> str:
    return (
        "Nothing was deleted. If this database is empty, or was restored from an old backup by mistake, connect the "
        f"right one. If the target is to lose them: disarray sink republish {name} --allow-deletes"
    )
