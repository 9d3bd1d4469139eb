"""Files that say different things under one key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.control.calls import fetch_records

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    after: Sequence[str] | None = None,
) -> list[FileConflict]:
    """Pairs of files that disagree, by subject and segment."""
    return fetch_records(
        connection,
        FileConflict,
        "select * from disarray.list_conflicts(%s, %s, %s, %s::text[])",
        (subject_key, source_uri, limit, after),
    )
