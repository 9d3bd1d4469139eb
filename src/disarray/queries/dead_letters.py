"""What was given up."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from disarray.control import dead_letters
from disarray.control.connections import Connection
from disarray.model.documents import document_of
from disarray.queries.pages import Order

ORDER = Order("dead letters", {"failed_at": datetime, "source_uri": str})


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
    """What was given up, oldest first; `next` is the cursor of the next page, null on the last."""

    dead_letters: list[DeadLetter]
    next: str | None


def list_dead_letters(
    connection: Connection,
    *,
    subject_key: str | None = None,
    failed_before: datetime | None = None,
    limit: int = 100,
    after: str | None = None,
) -> DeadLetters:
    """What was given up and not discarded, oldest first."""
    read = partial(
        dead_letters.list_dead_letters, connection, subject_key=subject_key, failed_before=failed_before
    )
    found, following = ORDER.page(read, after=after, limit=limit)
    return DeadLetters([document_of(DeadLetter, each) for each in found], following)
