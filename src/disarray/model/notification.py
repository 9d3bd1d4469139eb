"""One announcement of a file: the value that travels from an agent to the queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Metadata = dict[str, Any]


class Reason(StrEnum):
    """Why an order is queued, as in the enum ``ingest_queue_reason``: what was announced, or decided."""

    RECONCILE = "reconcile"
    COMPACT = "compact"
    COPY = "copy"
    FILE_NOTIFICATION = "file_notification"
    QUIET = "quiet"
    PREVIEW = "preview"
    BACKFILL = "backfill"
    REBUILD = "rebuild"
    REINGEST = "reingest"
    ALLOW = "allow"
    RELEASE = "release"
    REMOVE = "remove"


# Keys of metadata that the server writes, as in the function ``reserved_keys``: what was decided about a file, by whom,
# and what a worker found in it. An announcement that carries one would speak for operators.
RESERVED_KEYS = frozenset(
    {
        "reasons",
        "release",
        "release_readings",
        "release_version",
        "reason",
        "by",
        "role",
        "why",
        "part",
        "queue_id",
        "outcome",
        "change",
        "bytes",
        "lines",
        "rejected",
        "message",
        "parked_hash",
        "logical_start",
        "logical_end",
        "sealed",
        "run_id",
        "conflicts",
        "error",
    }
)


@dataclass(frozen=True)
class Notification:
    """One file that somebody saw; metadata may carry ``content_hash``, ``dataset`` and ``parse_version``."""

    source_uri: str
    subject_key: str
    reason: Reason = Reason.FILE_NOTIFICATION
    metadata: Metadata = field(default_factory=dict)
