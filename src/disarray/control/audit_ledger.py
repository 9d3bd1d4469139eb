"""What is wrong in the ledger of restatements and in the notices of commits, if anything. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.audit import Finding
from disarray.control.calls import fetch_records

if TYPE_CHECKING:
    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class SettledRestatement:
    """One end of a restated span that no later commit touched, and the value that was noted there."""

    dataset: str
    metric: str
    channel: str
    at_us: int
    is_first: bool  # the first reading of the span; the last one else
    new_float: float | None
    new_int: int | None

    @property
    def new(self) -> float | None:
        """The value that was noted."""
        return self.new_float if self.new_int is None else self.new_int


def audit_restatements(connection: Connection, *, limit: int) -> list[Finding]:
    """Entries of the ledger that do not add up, or that no commit stands behind."""
    return fetch_records(connection, Finding, "select * from disarray.audit_restatements(%s)", (limit,))


def audit_notices(connection: Connection, *, limit: int) -> list[Finding]:
    """Notices of commits that do not say what was committed, and followers that would miss one."""
    return fetch_records(connection, Finding, "select * from disarray.audit_notices(%s)", (limit,))


def list_settled_restatements(connection: Connection, subject_key: str) -> list[SettledRestatement]:
    """Ends of restated spans of a subject at which the value of today must be the one that was noted."""
    query = "select * from disarray.list_settled_restatements(%s)"
    return fetch_records(connection, SettledRestatement, query, (subject_key,))
