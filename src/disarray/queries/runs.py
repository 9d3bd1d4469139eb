"""Committed passes over subjects."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from disarray.control import runs
from disarray.control.connections import Connection
from disarray.model.documents import document_of
from disarray.queries.pages import Order

ORDER = Order("runs", {"committed_at": datetime, "run_id": UUID, "subject_key": str})


@dataclass(frozen=True, kw_only=True)
class Run:
    """One pass over one subject; `metadata` has its plans."""

    run_id: str
    subject_key: str
    instance_name: str
    committed_at: datetime
    metadata: dict[str, object]


@dataclass(frozen=True)
class Runs:
    """Passes, newest first; `next` is the cursor of the next page, null on the last."""

    runs: list[Run]
    next: str | None


def list_runs(
    connection: Connection,
    *,
    subject_key: str | None = None,
    since: datetime | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Runs:
    """Passes of workers, newest first."""
    read = partial(runs.list_runs, connection, subject_key=subject_key, since=since)
    found, following = ORDER.page(read, after=after, limit=limit)
    return Runs([document_of(Run, each, run_id=str(each.run_id)) for each in found], following)
