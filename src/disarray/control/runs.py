"""Committed passes over subjects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import fetch_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata


@dataclass(frozen=True, slots=True)
class Run:
    """One pass over one subject; `metadata` tells its plans."""

    run_id: UUID
    subject_key: str
    instance_name: str
    committed_at: datetime
    metadata: Metadata


def list_runs(
    connection: Connection,
    *,
    subject_key: str | None = None,
    since: datetime | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
) -> list[Run]:
    """Passes, newest first."""
    return fetch_records(
        connection,
        Run,
        "select * from disarray.list_runs(%s, coalesce(%s::timestamptz, '-infinity'), %s, %s::text[])",
        (subject_key, since, limit, after),
    )
