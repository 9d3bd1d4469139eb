"""What waits for an operator, and what an operator decides about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import fetch_records, fetch_value, find_value
from disarray.errors import InvalidRequestError, NotQuarantinedError

if TYPE_CHECKING:
    from collections.abc import Sequence
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
    part: str  # readings or version: what waits of the file, and is decided about by itself


def list_quarantine(
    connection: Connection,
    *,
    source_uri: str | None = None,
    subject_key: str | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
) -> list[Quarantined]:
    """All that waits, oldest first."""
    return fetch_records(
        connection,
        Quarantined,
        "select * from disarray.list_quarantine(%s, %s, %s, %s::text[])",
        (source_uri, subject_key, limit, after),
    )


def choose_part(waiting: Sequence[Quarantined], source_uri: str, part: str | None) -> Quarantined:
    """What is meant of all that waits of a file."""
    found = [each for each in waiting if part in (None, each.part)]
    if not found:
        raise NotQuarantinedError(
            f"nothing of {source_uri} is in quarantine{'' if part is None else f' as {part}'}. Nothing was done. "
            f"See: disarray files show {source_uri}"
        )
    if len(found) > 1:
        raise InvalidRequestError(
            f"readings of {source_uri} wait, and a version of it that says less: these are two decisions. Nothing was "
            "done. Name one of them: --part readings, or --part version."
        )
    return found[0]


def release_file(
    connection: Connection, source_uri: str, *, reason: str, by: str, part: str | None = None
) -> int | None:
    """Let what is parked of a file count, or the named part of it; the item that does it."""
    return find_value(
        connection, int, "select disarray.release_file(%s, %s, %s, %s)", (source_uri, reason, by, part)
    )


def reject_file(
    connection: Connection, source_uri: str, *, reason: str, by: str, part: str | None = None
) -> int:
    """Drop what is parked of a file, or the named part of it; how many readings went."""
    return fetch_value(
        connection, int, "select disarray.reject_file(%s, %s, %s, %s)", (source_uri, reason, by, part)
    )
