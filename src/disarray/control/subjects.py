"""Where each subject stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import fetch_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class SubjectState:
    """Where a subject stands; `stale_from` is None where all its numbers are final."""

    subject_key: str
    first_seen_at: datetime
    files: int
    dead_letters: int
    waiting_items: int
    claimed_items: int
    held_by: str | None
    lease_expires_at: datetime | None
    stale_from: datetime | None


def list_subject_states(
    connection: Connection,
    *,
    subject_key: str | None = None,
    limit: int = 1000,
    after: Sequence[str] | None = None,
) -> list[SubjectState]:
    """Every subject ever seen, by name."""
    return fetch_records(
        connection,
        SubjectState,
        "select * from disarray.list_subject_states(%s, %s, %s::text[])",
        (subject_key, limit, after),
    )
