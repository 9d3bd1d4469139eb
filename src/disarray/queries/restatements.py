"""Published values that were changed after people may have used them."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from disarray.control import values
from disarray.control.connections import Connection
from disarray.model.documents import document_of
from disarray.queries.pages import Order

ORDER = Order("restatements", {"restated_at": datetime, "restatement_id": int})


@dataclass(frozen=True, kw_only=True)
class Restatement:
    """Published values that were changed after people may have used them, from one reading to another.

    `old` and `new` are those at `changed_to`, which is null in entries from before there were spans: there they are the
    newest totals. `delta` was added to every value, of floats up to rounding, and is null where it was not one number;
    all changed by `least` to `greatest`. `new` is null where there is no value any more.
    """

    dataset: str
    subject_key: str
    metric: str
    channel: str
    changed_from: datetime
    changed_to: datetime | None
    first_old: int | float | None
    first_new: int | float | None
    old: int | float | None
    new: int | float | None
    delta: int | float | None
    least: int | float | None
    greatest: int | float | None
    source_uris: list[str]
    is_redefined: bool  # because the definition of the dataset changed
    restated_at: datetime

    @property
    def causes(self) -> str:
        """Because of what, as a person would tell it."""
        files = [uri.rpartition("/")[2] for uri in self.source_uris]
        return ", ".join([*(["a new definition of the dataset"] if self.is_redefined else []), *files])


@dataclass(frozen=True)
class Restatements:
    """What was restated, newest first; `next` is the cursor of the next page, null on the last."""

    restatements: list[Restatement]
    next: str | None


def list_restatements(
    connection: Connection, *, subject_key: str | None = None, limit: int = 100, after: str | None = None
) -> Restatements:
    """What was restated, newest first."""
    read = partial(values.list_restatements, connection, subject_key=subject_key)
    found, following = ORDER.page(read, after=after, limit=limit)
    return Restatements([restatement_document(each) for each in found], following)


def restatement_document(stored: values.Restatement) -> Restatement:
    """An entry of the ledger, as it is told."""
    return document_of(Restatement, stored, source_uris=list(stored.source_uris))
