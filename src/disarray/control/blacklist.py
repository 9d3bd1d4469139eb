"""Files that count for nothing until they are allowed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.calls import find_value

if TYPE_CHECKING:
    from disarray.control.connections import Connection


def blacklist_file(
    connection: Connection, source_uri: str, subject_key: str, *, reason: str, by: str
) -> int | None:
    """Make a file count for nothing; the item that removes its readings, or None where it has none."""
    return find_value(
        connection,
        int,
        "select disarray.blacklist_file(%s, %s, %s, %s)",
        (source_uri, subject_key, reason, by),
    )


def allow_file(connection: Connection, source_uri: str, *, reason: str, by: str) -> int | None:
    """Let a blacklisted file count again; the item that brings its readings back."""
    return find_value(connection, int, "select disarray.allow_file(%s, %s, %s)", (source_uri, reason, by))
