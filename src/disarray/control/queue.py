"""The queue: what is in it, and what a worker gets of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

from disarray.control.calls import fetch_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata

QueueId = NewType("QueueId", int)
Incarnation = NewType("Incarnation", int)


@dataclass(frozen=True)
class Holder:
    """One life of an instance: whose name and incarnation every claim and commit carries."""

    instance_name: str
    incarnation: Incarnation


class OrderKind(StrEnum):
    """What a queue row asks for, as in the enum ``ingest_queue_kind``; reading and removing are about a file."""

    READ = "read"
    REMOVE = "remove"
    REBUILD = "rebuild"
    RECONCILE = "reconcile"
    COMPACT = "compact"
    COPY = "copy"
    RESYNC = "resync"


class Lane(StrEnum):
    """Whether numbers wait for an order, as in the enum ``ingest_queue_lane``."""

    LIVE = "live"
    BACKFILL = "backfill"


@dataclass(frozen=True)
class QueueItem:
    """A claimed work order; ``source_uri`` is None where it is about a subject."""

    queue_id: QueueId
    source_uri: str | None
    subject_key: str
    reason: str
    metadata: Metadata
    retry_count: int
    lease_expires_at: datetime
    fence: int
    dataset: str | None
    content_hash: str | None
    incarnation: Incarnation
    kind: OrderKind
    lane: Lane

    @property
    def file_uri(self) -> str:
        """The file that it is about."""
        if self.source_uri is None:
            raise ValueError(f"item {self.queue_id} ({self.kind}) is about a subject, not a file")
        return self.source_uri


@dataclass(frozen=True)
class QueueEntry:
    """An item as a person sees it in a listing; ``source_uri`` is None where it is about a subject."""

    queue_id: QueueId
    source_uri: str | None
    subject_key: str
    dataset: str | None
    reason: str
    status: str
    retry_count: int
    max_retries: int
    enqueued_at: datetime
    available_at: datetime
    claimed_by_instance_name: str | None
    lease_expires_at: datetime | None
    kind: str
    lane: str


def list_queue(
    connection: Connection,
    *,
    subject_key: str | None = None,
    status: str | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
) -> list[QueueEntry]:
    """What is queued, in the order in which it was."""
    return fetch_records(
        connection,
        QueueEntry,
        "select * from disarray.list_queue(%s, %s, %s, %s::text[])",
        (subject_key, status, limit, after),
    )
