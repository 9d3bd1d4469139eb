"""What waits for a decision."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from disarray.control import quarantine
from disarray.control.connections import Connection
from disarray.model.documents import document_of
from disarray.model.quarantine_part import Part
from disarray.model.segments import instant_of
from disarray.queries.pages import Order

ORDER = Order(
    "quarantine",
    {"parked_at": datetime, "source_uri": str, "part": str, "subject_key": str, "dataset": str},
)


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """Parked readings of a file; a version that says less than the one before is not read, so it counts none."""

    source_uri: str
    subject_key: str
    dataset: str | None
    why: str
    segments: int
    readings: int
    first: datetime | None
    last: datetime | None
    parked_at: datetime
    message: str | None
    part: Part


@dataclass(frozen=True)
class Quarantine:
    """What waits, oldest first; `next` is the cursor of the next page, null on the last."""

    waiting: list[Quarantined]
    next: str | None


def list_quarantine(
    connection: Connection, *, subject_key: str | None = None, limit: int = 100, after: str | None = None
) -> Quarantine:
    """What waits for a decision, oldest first."""
    read = partial(quarantine.list_quarantine, connection, subject_key=subject_key)
    found, following = ORDER.page(read, after=after, limit=limit)
    waiting = [
        document_of(
            Quarantined,
            each,
            first=instant_of(each.first_us),
            last=instant_of(each.last_us),
            part=Part(each.part),
        )
        for each in found
    ]
    return Quarantine(waiting, following)
