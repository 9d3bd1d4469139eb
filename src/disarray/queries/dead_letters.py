"""What was given up."""

from dataclasses import dataclass
from datetime import datetime

from disarray.control import dead_letters
from disarray.control.connections import Connection
from disarray.model.documents import document_of


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A file whose last request failed for good; `reason` is that request, `last_error` why it failed."""

    source_uri: str
    subject_key: str
    dataset: str | None
    reason: str
    attempts: int
    crashes: int
    failed_at: datetime
    last_error: str | None
    content_hash: str | None


@dataclass(frozen=True)
class DeadLetters:
    """What was given up, oldest first; `more` where the limit cut the list off."""

    dead_letters: list[DeadLetter]
    more: bool


def list_dead_letters(
    connection: Connection,
    *,
    subject_key: str | None = None,
    failed_before: datetime | None = None,
    limit: int = 100,
) -> DeadLetters:
    """What was given up and not discarded, oldest first."""
    found = dead_letters.list_dead_letters(
        connection, subject_key=subject_key, failed_before=failed_before, limit=limit + 1
    )
    return DeadLetters([document_of(DeadLetter, each) for each in found[:limit]], more=len(found) > limit)
