"""The event log: what happened to a file, its partitions, and when they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.rows import class_row

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata


@dataclass(frozen=True, slots=True)
class FileEvent:
    """Something that happened to a file; `instance_name` is the worker, or the person who asked."""

    occurred_at: datetime
    event_type: str
    instance_name: str | None
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, to a file, a subject or an instance."""

    occurred_at: datetime
    event_type: str
    source_uri: str | None
    subject_key: str | None
    instance_name: str | None
    metadata: Metadata
    event_id: int


def list_events(
    connection: Connection,
    *,
    since: datetime,
    subject_key: str | None = None,
    source_uri: str | None = None,
    event_type: str | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
    queue_id: int | None = None,
) -> list[Event]:
    """What happened since an instant, newest first."""
    with translated_errors(), connection.cursor(row_factory=class_row(Event)) as cursor:
        return cursor.execute(
            "select * from disarray.list_events(%s, %s, %s, %s, %s, %s::text[], %s)",
            (since, subject_key, source_uri, event_type, limit, after, queue_id),
        ).fetchall()


def count_events(connection: Connection, *, since: datetime) -> dict[str, int]:
    """How often what happened since an instant, by type; what did not happen is left out."""
    with translated_errors():
        rows = connection.execute(
            "select event_type, events from disarray.count_events(%s)", (since,)
        ).fetchall()
    return dict(rows)


def list_file_events(connection: Connection, source_uri: str, *, limit: int = 1000) -> list[FileEvent]:
    """The history of a file, newest first."""
    with translated_errors(), connection.cursor(row_factory=class_row(FileEvent)) as cursor:
        return cursor.execute(
            "select * from disarray.list_file_events(%s, %s)", (source_uri, limit)
        ).fetchall()


def provision_event_partitions(connection: Connection, *, months_ahead: int = 3) -> int:
    """Create the missing partitions of this month and the coming ones; how many there were."""
    with translated_errors():
        row = connection.execute("select disarray.provision_event_partitions(%s)", (months_ahead,)).fetchone()
    assert row is not None
    return int(row[0])


def drop_old_events(connection: Connection, *, keep: timedelta) -> int:
    """Drop whole months of events older than ``keep``; how many partitions went."""
    with translated_errors():
        row = connection.execute("select disarray.drop_old_events(%s)", (keep,)).fetchone()
    assert row is not None
    return int(row[0])
