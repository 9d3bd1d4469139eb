"""What waits for an operator, and what an operator decides about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.rows import class_row

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from datetime import datetime

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Parked readings of a file; a version that says less than the one before is not read, so it counts none."""

    source_uri: str
    subject_key: str
    dataset: str
    why: str
    segments: int
    readings: int
    first_us: int | None
    last_us: int | None
    parked_at: datetime
    message: str | None


def list_quarantine(
    connection: Connection,
    *,
    source_uri: str | None = None,
    subject_key: str | None = None,
    limit: int = 100,
) -> list[Quarantined]:
    """All that waits, oldest first."""
    with translated_errors(), connection.cursor(row_factory=class_row(Quarantined)) as cursor:
        return cursor.execute(
            "select * from disarray.list_quarantine(%s, %s, %s)", (source_uri, subject_key, limit)
        ).fetchall()


def release_file(connection: Connection, source_uri: str, *, reason: str, by: str) -> int | None:
    """Let what is parked of a file count; the item that does it."""
    with translated_errors():
        row = connection.execute(
            "select disarray.release_file(%s, %s, %s)", (source_uri, reason, by)
        ).fetchone()
    assert row is not None
    queue_id: int | None = row[0]
    return queue_id


def reject_file(connection: Connection, source_uri: str, *, reason: str, by: str) -> int:
    """Drop what is parked of a file; how many readings went."""
    with translated_errors():
        row = connection.execute(
            "select disarray.reject_file(%s, %s, %s)", (source_uri, reason, by)
        ).fetchone()
    assert row is not None
    return int(row[0])
