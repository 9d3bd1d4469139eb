"""Committed passes over subjects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.rows import class_row

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
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
) -> list[Run]:
    """Passes, newest first."""
    with translated_errors(), connection.cursor(row_factory=class_row(Run)) as cursor:
        return cursor.execute(
            "select * from disarray.list_runs(%s, coalesce(%s::timestamptz, '-infinity'), %s)",
            (subject_key, since, limit),
        ).fetchall()
