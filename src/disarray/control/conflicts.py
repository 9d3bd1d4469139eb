"""Files that say different things under one key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.rows import class_row

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class FileConflict:
    """Two files that disagree in one segment: `conflicts` readings of the loser do not count.

    `examples` are the earliest of the segment, each with `event_us`, `channel`, `key_values`, and `differences`: by
    column the value that counts and the one that does not.
    """

    dataset: str
    subject_key: str
    segment_us: int
    winner_uri: str
    loser_uri: str
    conflicts: int
    examples: list[dict[str, Any]]


def list_conflicts(
    connection: Connection,
    *,
    subject_key: str | None = None,
    source_uri: str | None = None,
    limit: int = 100,
) -> list[FileConflict]:
    """Pairs of files that disagree, by subject and segment."""
    with translated_errors(), connection.cursor(row_factory=class_row(FileConflict)) as cursor:
        return cursor.execute(
            "select * from disarray.list_conflicts(%s, %s, %s)", (subject_key, source_uri, limit)
        ).fetchall()
