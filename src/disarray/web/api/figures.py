"""What was taken in, how late it was, and what mending for it cost."""

from dataclasses import dataclass
from datetime import datetime

from disarray.control import figures
from disarray.web.route import API, Call, Route, Scope


@dataclass(frozen=True, kw_only=True)
class Period:
    """Whole hours; all time where no end is given."""

    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class LatenessClass:
    """Files no later than the bound and later than the one before; null is beyond the last bound."""

    bound_seconds: int | None
    files: int


@dataclass(frozen=True, kw_only=True)
class Lateness:
    """Arriving files by how far their last reading lay behind the newest of the subject, and what mending cost.

    For `late_readings`, `repair_readings` were scanned again and `repair_bases` shifted.
    """

    classes: list[LatenessClass]
    late_readings: int
    repair_readings: int
    repair_bases: int
    repair_amplification: float | None
    restatements: int


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Lines of arriving files: seen = kept + duplicate + rejected + parked + blank."""

    files_read: int
    files_unchanged: int
    files_parked: int
    readings_seen: int
    readings_kept: int
    readings_duplicate: int
    readings_rejected: int
    readings_parked: int
    lines_blank: int


def show_lateness(call: Call, asked: Period) -> Lateness:
    """How late files were."""
    counted = figures.sum_figures(call.connection, since=asked.since, until=asked.until)
    found = figures.lateness_histogram(call.connection, since=asked.since, until=asked.until)
    return Lateness(
        classes=[LatenessClass(bound_seconds=each.bound_seconds, files=each.files) for each in found],
        late_readings=counted.late_readings,
        repair_readings=counted.repair_readings,
        repair_bases=counted.repair_bases,
        repair_amplification=counted.repair_amplification,
        restatements=counted.restatements,
    )


def show_duplicates(call: Call, asked: Period) -> Duplicates:
    """What became of every line."""
    counted = figures.sum_figures(call.connection, since=asked.since, until=asked.until)
    return Duplicates(
        files_read=counted.files_read,
        files_unchanged=counted.files_unchanged,
        files_parked=counted.files_parked,
        readings_seen=counted.readings_seen,
        readings_kept=counted.readings_kept,
        readings_duplicate=counted.readings_duplicate,
        readings_rejected=counted.readings_rejected,
        readings_parked=counted.readings_parked,
        lines_blank=counted.lines_blank,
    )


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/figures/lateness",
        scope=Scope.READ,
        summary="How late files were, and what mending for them cost",
        asks=Period,
        answers=Lateness,
        handle=show_lateness,
    ),
    Route(
        method="GET",
        path=f"{API}/figures/duplicates",
        scope=Scope.READ,
        summary="What became of every line of arriving files: kept, duplicate, rejected, parked",
        asks=Period,
        answers=Duplicates,
        handle=show_duplicates,
    ),
)
