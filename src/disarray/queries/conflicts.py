"""Which files disagree under one key, and whose reading counts."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from disarray.control import conflicts
from disarray.control.connections import Connection
from disarray.model.documents import document_of
from disarray.model.segments import datetime_of
from disarray.queries.pages import Order

ORDER = Order(
    "conflicts",
    {"dataset": str, "subject_key": str, "segment_us": int, "winner_uri": str, "loser_uri": str},
)


@dataclass(frozen=True, kw_only=True)
class FileConflict:
    """Two files that disagree in a segment; `examples` are the earliest, with the value that counts and the other."""

    dataset: str
    subject_key: str
    segment: datetime
    winner: str
    loser: str
    conflicts: int
    examples: list[dict[str, object]]


@dataclass(frozen=True)
class Conflicts:
    """Pairs of files that disagree, by subject and segment; `next` is the cursor of the next page, null on the last."""

    conflicts: list[FileConflict]
    next: str | None


def list_conflicts(
    connection: Connection,
    *,
    subject_key: str | None = None,
    source_uri: str | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Conflicts:
    """Pairs of files that disagree."""
    read = partial(conflicts.list_conflicts, connection, subject_key=subject_key, source_uri=source_uri)
    found, following = ORDER.page(read, after=after, limit=limit)
    shown = [
        document_of(
            FileConflict,
            each,
            segment=datetime_of(each.segment_us),
            winner=each.winner_uri,
            loser=each.loser_uri,
            examples=[example | {"at": datetime_of(example["event_us"])} for example in each.examples],
        )
        for each in found
    ]
    return Conflicts(shown, following)
