"""What is wrong in what is known of files, deliveries and events, if anything. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.audit import Finding
from disarray.control.calls import fetch_records

if TYPE_CHECKING:
    from disarray.control.connections import Connection


def audit_file_records(connection: Connection, *, limit: int) -> list[Finding]:
    """What is shown of a file that its fragments contradict, and moves of which one side is missing."""
    return fetch_records(connection, Finding, "select * from disarray.audit_file_records(%s)", (limit,))


def audit_deliveries(connection: Connection, *, limit: int) -> list[Finding]:
    """Batches, rows and events that do not add up."""
    return fetch_records(connection, Finding, "select * from disarray.audit_deliveries(%s)", (limit,))
