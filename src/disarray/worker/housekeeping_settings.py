"""The `[housekeeping]` settings as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.config import default_config

if TYPE_CHECKING:
    from datetime import timedelta

    from disarray.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingSettings:
    """What is cold, what is small, and how long things are kept that nothing needs."""

    cold_after: timedelta
    compact_fragments: int
    compact_readings: int
    vacuum_after: timedelta
    keep_history: timedelta
    keep_commits: timedelta
    keep_events: timedelta
    keep_inbox: timedelta
    keep_effects: timedelta
    keep_backfills: timedelta
    keep_landing: timedelta | None  # of deliveries that nothing needs; None: for ever


def housekeeping_settings(config: Config) -> HousekeepingSettings:
    """The `[housekeeping]` settings of a configuration."""
    return HousekeepingSettings(
        cold_after=config.length("housekeeping.cold_after"),
        compact_fragments=config.number("housekeeping.compact_fragments"),
        compact_readings=config.number("housekeeping.compact_readings"),
        vacuum_after=config.length("housekeeping.vacuum_after"),
        keep_history=config.length("housekeeping.keep_history"),
        keep_commits=config.length("housekeeping.keep_commits"),
        keep_events=config.length("housekeeping.keep_events"),
        keep_inbox=config.length("housekeeping.keep_inbox"),
        keep_effects=config.length("housekeeping.keep_effects"),
        keep_backfills=config.length("housekeeping.keep_backfills"),
        keep_landing=config.length("landing.keep") if config.is_set("landing.keep") else None,
    )


DEFAULTS = housekeeping_settings(default_config())
