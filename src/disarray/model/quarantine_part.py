"""What can wait of a file for a decision."""

from __future__ import annotations

from enum import StrEnum


class Part(StrEnum):
    """What waits of a file: readings of it, or a version that says less. Each is a decision of its own."""

    READINGS = "readings"
    VERSION = "version"
