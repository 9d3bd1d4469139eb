"""What is wrong in the catalog, if anything, and what an audit of bases and of lake files needs. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.audit import Finding
from disarray.control.calls import fetch_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection


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
    first_reading_us: int | None
    reset_us: int | None
    block_us: int
    is_carried: bool | None
    offset_float: float | None
    offset_int: int | None
    offset_before_float: float | None
    offset_before_int: int | None

    @property
    def series(self) -> tuple[str, str, str]:
        """What the links of one chain have in common."""
        return self.dataset, self.metric, self.channel


def audit_readings(connection: Connection, *, limit: int) -> list[Finding]:
    """Lines, fragments, segments and numbers that do not add up."""
    return fetch_records(connection, Finding, "select * from disarray.audit_readings(%s)", (limit,))


def audit_commits(connection: Connection, *, limit: int) -> list[Finding]:
    """What is half of one commit, or of none."""
    return fetch_records(connection, Finding, "select * from disarray.audit_commits(%s)", (limit,))


def audit_origins(connection: Connection, *, limit: int) -> list[Finding]:
    """What nobody could explain."""
    return fetch_records(connection, Finding, "select * from disarray.audit_origins(%s)", (limit,))


def load_base_chains(connection: Connection, subject_key: str) -> list[ChainLink]:
    """The summaries and bases of a subject, series by series and in the order of time."""
    return fetch_records(connection, ChainLink, "select * from disarray.load_base_chains(%s)", (subject_key,))


def list_live_lake_files(connection: Connection) -> list[LiveLakeFile]:
    """Every file of the lake that is needed."""
    return fetch_records(connection, LiveLakeFile, "select * from disarray.list_live_lake_files()")
