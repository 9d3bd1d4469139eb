"""Committed passes over subjects."""

from dataclasses import dataclass
from datetime import datetime

from disarray.control import runs
from disarray.control.connections import Connection
from disarray.model.documents import document_of


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
    """Passes, newest first; `more` where the limit cut the list off."""

    runs: list[Run]
    more: bool


def list_runs(
    connection: Connection, *, subject_key: str | None = None, since: datetime | None = None, limit: int = 100
) -> Runs:
    """Passes of workers, newest first."""
    found = runs.list_runs(connection, subject_key=subject_key, since=since, limit=limit + 1)
    shown = [document_of(Run, each, run_id=str(each.run_id)) for each in found[:limit]]
    return Runs(shown, more=len(found) > limit)
