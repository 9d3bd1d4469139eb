"""Where a file can stand."""

from __future__ import annotations

import enum


class FileStatus(enum.StrEnum):
    """As in the database; docs/states.md says what moves a file from one to another."""

    PENDING = "pending"
    PROCESSED = "processed"
    FAILED = "failed"
    PARKED = "parked"
    BLACKLISTED = "blacklisted"
