"""The life of the event log: its partitions, and when they go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from datetime import timedelta

    from disarray.control.connections import Connection


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
