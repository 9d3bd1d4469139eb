"""Files on their way in, and where each stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from disarray.control.calls import fetch_records, fetch_rows, find_value
from disarray.control.metadata import Metadata, as_jsonb
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
    parent_uri: str | None = None  # of a part of a file about several subjects


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
    return find_value(
        connection,
        int,
        "select disarray.enqueue_file(%s, %s, %s, %s, %s)",
        (source_uri, subject_key, reason, instance_name, as_jsonb(metadata or {})),
    )


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
    rows = fetch_rows(
        connection,
        """
        select source_uri, queue_id, verdict
        from disarray.enqueue_files(%b::text[], %b::text[], %b::text[], %s, %b::jsonb[])
        """,
        (*columns[:3], instance_name, columns[3]),
    )
    return [Enqueued(source_uri, queue_id, Verdict(verdict)) for source_uri, queue_id, verdict in rows]


def reingest_file(connection: Connection, source_uri: str, *, reason: str, by: str) -> int | None:
    """Read a file again from its first byte; the item that does it, or None where the file is blacklisted."""
    return find_value(connection, int, "select disarray.reingest_file(%s, %s, %s)", (source_uri, reason, by))


def list_files(
    connection: Connection,
    *,
    status: str | None = None,
    subject_key: str | None = None,
    source_name: str | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
) -> list[FileRecord]:
    """Files that were ever announced, or those that a source delivered, by uri."""
    return fetch_records(
        connection,
        FileRecord,
        "select * from disarray.list_files(%s, %s, %s, %s::text[], %s)",
        (status, subject_key, limit, after, source_name),
    )


def describe_file(connection: Connection, source_uri: str) -> Metadata | None:
    """All that is known of a file, None where it was never announced."""
    return find_value(connection, dict, "select disarray.describe_file(%s)", (source_uri,))
