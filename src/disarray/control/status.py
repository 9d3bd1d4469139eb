"""The whole control plane in one document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import fetch_records, fetch_value

if TYPE_CHECKING:
    from datetime import datetime

    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata


@dataclass(frozen=True, slots=True)
class Waiting:
    """A file that is not in and waits for somebody; `files` counts all of its `kind`."""

    kind: str
    files: int
    source_uri: str
    subject_key: str
    since: datetime
    message: str | None


def list_waiting(connection: Connection, *, limit: int = 20) -> list[Waiting]:
    """What is parked, failed, queued again, queued, or was rejected row by row; the oldest of each kind."""
    return fetch_records(connection, Waiting, "select * from disarray.list_waiting(%s)", [limit])


def queue_status(connection: Connection) -> Metadata:
    """Queue, files, subjects, instances and open ranges, counted in one snapshot."""
    return fetch_value(connection, dict, "select disarray.queue_status()")


def current_us(connection: Connection) -> int:
    """The database's clock in microseconds: it alone decides what lies in the future."""
    return fetch_value(connection, int, "select disarray.current_us()")
