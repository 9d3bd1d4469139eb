"""The whole control plane in one document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.rows import class_row

from disarray.control.translation import translated_errors

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
    with translated_errors(), connection.cursor(row_factory=class_row(Waiting)) as cursor:
        return cursor.execute("select * from disarray.list_waiting(%s)", [limit]).fetchall()


def queue_status(connection: Connection) -> Metadata:
    """Queue, files, subjects, instances and open ranges, counted in one snapshot."""
    with translated_errors():
        row = connection.execute("select disarray.queue_status()").fetchone()
    assert row is not None
    status: Metadata = row[0]
    return status


def current_us(connection: Connection) -> int:
    """The database's clock in microseconds: it alone decides what lies in the future."""
    with translated_errors():
        row = connection.execute("select disarray.current_us()").fetchone()
    assert row is not None
    return int(row[0])
