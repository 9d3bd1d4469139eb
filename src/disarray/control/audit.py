"""What is wrong in the database, if anything: one function for each family of rules. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.rows import class_row

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that breaks a rule, and where."""

    rule: str
    found_at: str
    detail: str


@dataclass(frozen=True, slots=True)
class LiveLakeFile:
    """A file of the lake that fragments need: each of them a row group with so many readings."""

    path: str
    bytes: int
    checksum: str
    row_groups: Sequence[int]
    readings: Sequence[int]
    first_rows: Sequence[int | None]
    digests: Sequence[str | None]
    former_row_groups: Sequence[int]  # that no fragment needs any more
    former_digests: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """A summary with its base, as a link in the chain of its series."""

    dataset: str
    metric: str
    channel: str
    segment_us: int
    piece: int
    kind: str
    method: str
    max_gap_us: int | None
    is_integer: bool
    points: int
    total_float: float | None
    total_int: int | None
    first_us: int | None
    first_float: float | None
    first_int: int | None
    first_break: str | None
    first_reset: str | None
    last_us: int | None
    last_float: float | None
    last_int: int | None
    last_break: str | None
    last_reset: str | None
    base_float: float | None
    base_int: int | None
    before_float: float | None
    before_int: int | None

    @property
    def series(self) -> tuple[str, str, str]:
        """What the links of one chain have in common."""
        return self.dataset, self.metric, self.channel


def audit_files(connection: Connection, *, since: timedelta, limit: int) -> list[Finding]:
    """Files and requests that are nowhere."""
    return _findings(connection, "select * from disarray.audit_files(%s, %s)", since, limit)


def audit_leases(
    connection: Connection, *, since: timedelta, patience: timedelta, limit: int
) -> list[Finding]:
    """Claims, locks and commits that do not go together."""
    return _findings(connection, "select * from disarray.audit_leases(%s, %s, %s)", since, patience, limit)


def audit_progress(connection: Connection, *, patience: timedelta, limit: int) -> list[Finding]:
    """What would wait for ever."""
    return _findings(connection, "select * from disarray.audit_progress(%s, %s)", patience, limit)


def audit_limits(connection: Connection, *, limit: int) -> list[Finding]:
    """What outgrew its cap."""
    return _findings(connection, "select * from disarray.audit_limits(%s)", limit)


def audit_readings(connection: Connection, *, limit: int) -> list[Finding]:
    """Lines, fragments, segments and numbers that do not add up."""
    return _findings(connection, "select * from disarray.audit_readings(%s)", limit)


def audit_commits(connection: Connection, *, limit: int) -> list[Finding]:
    """What is half of one commit, or of none."""
    return _findings(connection, "select * from disarray.audit_commits(%s)", limit)


def audit_origins(connection: Connection, *, limit: int) -> list[Finding]:
    """What nobody could explain."""
    return _findings(connection, "select * from disarray.audit_origins(%s)", limit)


def load_base_chains(connection: Connection, subject_key: str) -> list[ChainLink]:
    """The summaries and bases of a subject, series by series and in the order of time."""
    with translated_errors(), connection.cursor(row_factory=class_row(ChainLink)) as cursor:
        return cursor.execute("select * from disarray.load_base_chains(%s)", (subject_key,)).fetchall()


def list_live_lake_files(connection: Connection) -> list[LiveLakeFile]:
    """Every file of the lake that is needed."""
    with translated_errors(), connection.cursor(row_factory=class_row(LiveLakeFile)) as cursor:
        return cursor.execute("select * from disarray.list_live_lake_files()").fetchall()


def _findings(connection: Connection, query: str, *arguments: object) -> list[Finding]:
    with translated_errors(), connection.cursor(row_factory=class_row(Finding)) as cursor:
        return cursor.execute(query.encode(), arguments).fetchall()
