"""What housekeeping was told, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from disarray.errors import ConfigError
from disarray.model.duration import parse_duration

if TYPE_CHECKING:
    from disarray.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingSettings:
    """What is cold, what is small, and how long things are kept that nothing needs."""

    cold_after: timedelta = timedelta(hours=1)
    compact_fragments: int = 8
    compact_readings: int = 20_000
    vacuum_after: timedelta = timedelta(days=1)
    keep_history: timedelta = timedelta(days=90)
    keep_commits: timedelta = timedelta(days=30)
    keep_events: timedelta = timedelta(days=365)


def housekeeping_settings(config: Config) -> HousekeepingSettings:
    """The `[housekeeping]` settings of a configuration."""
    return HousekeepingSettings(
        cold_after=_length(config, "housekeeping.cold_after"),
        compact_fragments=_number(config, "housekeeping.compact_fragments", at_least=2),
        compact_readings=_number(config, "housekeeping.compact_readings", at_least=1),
        vacuum_after=_length(config, "housekeeping.vacuum_after", at_least=timedelta(hours=1)),
        keep_history=_length(config, "housekeeping.keep_history", at_least=timedelta(days=1)),
        keep_commits=_length(config, "housekeeping.keep_commits", at_least=timedelta(days=1)),
        keep_events=_length(config, "housekeeping.keep_events", at_least=timedelta(days=31)),
    )


def _length(config: Config, name: str, *, at_least: timedelta = timedelta(0)) -> timedelta:
    length = timedelta(microseconds=parse_duration(config.text(name)))
    if length < at_least:
        raise ConfigError(
            f"{name} is {config.text(name)!r}; it must be {at_least} at least. Nothing was changed."
        )
    return length


def _number(config: Config, name: str, *, at_least: int) -> int:
    text = config.text(name)
    if not text.isascii() or not text.isdigit() or not at_least <= int(text) <= 1_000_000_000:
        raise ConfigError(
            f"{name} {text!r} must be a whole number of at least {at_least}, in quotes. Nothing was changed."
        )
    return int(text)
