"""When a backfill waits for others: what is measured, what the limits are, and which of them is passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disarray.backfill.description import HealthLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Strain:
    """How others fare; None where it is not known, or there was nothing to measure."""

    commit_p99_seconds: float | None = None
    queue_age_seconds: float | None = None
    lock_waits: int | None = None
    replication_lag_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Which limit holds a backfill back, and why."""

    held_by: str
    reason: str


def hold_of(strain: Strain, limits: HealthLimits) -> Hold | None:
    """The first limit that is passed; None where others fare well."""
    measured = (
        (
            "max_commit_p99",
            "p99 of live commits",
            strain.commit_p99_seconds,
            limits.max_commit_p99_seconds,
            " s",
        ),
        (
            "max_queue_age",
            "the oldest live item waits",
            strain.queue_age_seconds,
            limits.max_queue_age_seconds,
            " s",
        ),
        ("max_lock_waits", "sessions that wait for a lock", strain.lock_waits, limits.max_lock_waits, ""),
        (
            "max_replication_lag",
            "the slowest replica is behind",
            strain.replication_lag_seconds,
            limits.max_replication_lag_seconds,
            " s",
        ),
    )
    for name, what, value, limit, unit in measured:
        if value is not None and limit is not None and value > limit:
            return Hold(name, f"{what}: {value:.4g}{unit}, the limit is {limit:g}{unit}")
    return None
