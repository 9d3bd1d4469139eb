"""Files on their way in: notifications, the blacklist, and where each file stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from psycopg.rows import class_row

from disarray.control.metadata import Metadata, as_jsonb
from disarray.control.translation import translated_errors
from disarray.model.notification import Notification as Notification
from disarray.model.notification import Reason as Reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from disarray.control.connections import Connection


class Verdict(StrEnum):
    """What became of a notification."""

    ENQUEUED = "enqueued"
    MERGED = "merged"
    UNCHANGED = "unchanged"
    REFUSED_BLACKLISTED = "refused_blacklisted"


@dataclass(frozen=True)
class Enqueued:
    """The answer to a notification; ``queue_id`` is None where nothing is to be done."""

    source_uri: str
    queue_id: int | None
    verdict: Verdict


@dataclass(frozen=True)
class FileRecord:
    """Where a file stands."""

    source_uri: str
    subject_key: str
    dataset: str | None
    status: str
    content_hash: str | None
    process_count: int
    retry_count: int
    last_error: str | None
    first_seen_at: datetime
    last_seen_at: datetime


def enqueue_file(
    connection: Connection,
    source_uri: str,
    subject_key: str,
    *,
    reason: Reason = Reason.FILE_NOTIFICATION,
    instance_name: str | None = None,
    metadata: Metadata | None = None,
) -> int | None:
    """Queue one file; None where nothing is to be done (unchanged, or blacklisted)."""
    with translated_errors():
        row = connection.execute(
            "select disarray.enqueue_file(%s, %s, %s, %s, %s)",
            (source_uri, subject_key, reason, instance_name, as_jsonb(metadata or {})),
        ).fetchone()
    assert row is not None
    queue_id: int | None = row[0]
    return queue_id


def enqueue_files(
    connection: Connection, notifications: Sequence[Notification], *, instance_name: str | None = None
) -> list[Enqueued]:
    """Queue many files in one round trip; one answer per distinct uri, all or none."""
    columns: tuple[list[Any], ...] = (
        [notification.source_uri for notification in notifications],
        [notification.subject_key for notification in notifications],
        [str(notification.reason) for notification in notifications],
        [as_jsonb(notification.metadata) for notification in notifications],
    )
    with translated_errors():
        rows = connection.execute(
            """
            select source_uri, queue_id, verdict
            from disarray.enqueue_files(%b::text[], %b::text[], %b::text[], %s, %b::jsonb[])
            """,
            (*columns[:3], instance_name, columns[3]),
        ).fetchall()
    return [Enqueued(source_uri, queue_id, Verdict(verdict)) for source_uri, queue_id, verdict in rows]


def reingest_file(connection: Connection, source_uri: str, *, reason: str, by: str) -> int | None:
    """Read a file again from its first byte; the item that does it, or None where the file is blacklisted."""
    with translated_errors():
        row = connection.execute(
            "select disarray.reingest_file(%s, %s, %s)", (source_uri, reason, by)
        ).fetchone()
    assert row is not None
    queue_id: int | None = row[0]
    return queue_id


def blacklist_file(
    connection: Connection, source_uri: str, subject_key: str, *, reason: str, by: str
) -> int | None:
    """Make a file count for nothing; the item that removes its readings, or None where it has none."""
    with translated_errors():
        row = connection.execute(
            "select disarray.blacklist_file(%s, %s, %s, %s)", (source_uri, subject_key, reason, by)
        ).fetchone()
    assert row is not None
    queue_id: int | None = row[0]
    return queue_id


def allow_file(connection: Connection, source_uri: str, *, reason: str, by: str) -> int | None:
    """Let a blacklisted file count again; the item that brings its readings back."""
    with translated_errors():
        row = connection.execute(
            "select disarray.allow_file(%s, %s, %s)", (source_uri, reason, by)
        ).fetchone()
    assert row is not None
    queue_id: int | None = row[0]
    return queue_id


def list_files(
    connection: Connection, *, status: str | None = None, subject_key: str | None = None, limit: int = 100
) -> list[FileRecord]:
    """Files that were ever announced, by uri."""
    with translated_errors(), connection.cursor(row_factory=class_row(FileRecord)) as cursor:
        return cursor.execute(
            "select * from disarray.list_files(%s, %s, %s)", (status, subject_key, limit)
        ).fetchall()


def describe_file(connection: Connection, source_uri: str) -> Metadata | None:
    """All that is known of a file, None where it was never announced."""
    with translated_errors():
        row = connection.execute("select disarray.describe_file(%s)", (source_uri,)).fetchone()
    assert row is not None
    known: Metadata | None = row[0]
    return known
