"""What is wrong in the database, if anything: one function for each family of rules. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import fetch_records

if TYPE_CHECKING:
    from datetime import timedelta

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that breaks a rule, and where."""

    rule: str
    found_at: str
    detail: str


def audit_files(connection: Connection, *, since: timedelta, limit: int) -> list[Finding]:
    """Files and requests that are nowhere."""
    return fetch_records(
        connection,
        Finding,
        "select * from disarray.audit_files(%s, %s)",
        (
            since,
            limit,
        ),
    )


def audit_leases(
    connection: Connection, *, since: timedelta, patience: timedelta, limit: int
) -> list[Finding]:
    """Claims, locks and commits that do not go together."""
    return fetch_records(
        connection,
        Finding,
        "select * from disarray.audit_leases(%s, %s, %s)",
        (
            since,
            patience,
            limit,
        ),
    )


def audit_progress(connection: Connection, *, patience: timedelta, limit: int) -> list[Finding]:
    """What would wait for ever."""
    return fetch_records(
        connection,
        Finding,
        "select * from disarray.audit_progress(%s, %s)",
        (
            patience,
            limit,
        ),
    )


def audit_limits(connection: Connection, *, limit: int) -> list[Finding]:
    """What outgrew its cap."""
    return fetch_records(connection, Finding, "select * from disarray.audit_limits(%s)", (limit,))
