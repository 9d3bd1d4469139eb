"""The whole control plane in one document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata


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
