"""What was taken in, how late it was, and what mending for it cost: facts of commits, which survive every restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import fetch_records

if TYPE_CHECKING:
    from datetime import datetime

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over commits. Of arriving files: seen = kept + duplicate + rejected + parked + blank lines.

    `late_readings` came behind the newest of their subject; for them `repair_readings` were scanned again and
    `repair_bases` shifted.
    """

    commits: int
    files_read: int
    files_unchanged: int
    files_parked: int
    readings_seen: int
    readings_kept: int
    readings_duplicate: int
    readings_rejected: int
    readings_parked: int
    lines_blank: int
    readings_scanned: int
    segments_scanned: int
    segments_changed: int
    bases_shifted: int
    restatements: int
    late_readings: int
    repair_readings: int
    repair_bases: int
    lateness_seconds: float

    @property
    def repair_amplification(self) -> float | None:
        """Readings scanned again for each late one; None where none was late."""
        return self.repair_readings / self.late_readings if self.late_readings else None


@dataclass(frozen=True, slots=True)
class LatenessClass:
    """Arriving files no later than the bound and later than the one before; None is beyond the last bound."""

    bound_seconds: int | None
    files: int


def sum_figures(
    connection: Connection, *, since: datetime | None = None, until: datetime | None = None
) -> Figures:
    """Sums over the whole hours of a period; without one over all time, and then they only grow."""
    (figures,) = fetch_records(
        connection,
        Figures,
        """
        select * from disarray.sum_figures(
            coalesce(%s::timestamptz, '-infinity'), coalesce(%s::timestamptz, 'infinity')
        )
        """,
        (since, until),
    )
    return figures


def lateness_histogram(
    connection: Connection, *, since: datetime | None = None, until: datetime | None = None
) -> list[LatenessClass]:
    """Arriving files by how far their last reading lay behind the newest of the subject, each file once."""
    return fetch_records(
        connection,
        LatenessClass,
        """
            select * from disarray.lateness_histogram(
                coalesce(%s::timestamptz, '-infinity'), coalesce(%s::timestamptz, 'infinity')
            )
        """,
        (since, until),
    )
