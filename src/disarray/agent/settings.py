"""What an agent was told, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.agent.schedule import Tier, parse_tiers
from disarray.errors import ConfigError
from disarray.model.duration import DAY, SECOND, parse_duration

if TYPE_CHECKING:
    from disarray.config import Config

MEGABYTE = 1_000_000

DEFAULT_TIERS = parse_tiers("1 h every 0 s, 7 d every 1 min, older every 10 min")
DEFAULT_IGNORE = (
    ".*",
    "~*",
    "*~",
    "*.tmp",
    "*.temp",
    "*.part",
    "*.partial",
    "*.crdownload",
    "*.swp",
    "Thumbs.db",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How often, how much, and what not; times in microseconds."""

    scan_every_us: int = SECOND
    tiers: tuple[Tier, ...] = DEFAULT_TIERS
    ignore: tuple[str, ...] = DEFAULT_IGNORE
    spool_bytes: int = 64 * MEGABYTE
    announce_again_us: int = DAY
    deep_rescan_us: int = 7 * DAY
    forget_after_us: int = 30 * DAY
    # What one scan takes on before it looks again whether something fresher came.
    read_budget_bytes: int = 512 * MEGABYTE
    read_budget_files: int = 5_000
    review_budget_bytes: int = 64 * MEGABYTE


def agent_settings(config: Config) -> AgentSettings:
    """The `[agent]` settings of a configuration."""
    return AgentSettings(
        scan_every_us=parse_duration(config.text("agent.scan_every")),
        tiers=parse_tiers(config.text("agent.tiers")),
        ignore=tuple(config.text("agent.ignore").replace(",", " ").split()),
        spool_bytes=_megabytes("agent.spool_mb", config.text("agent.spool_mb")),
        announce_again_us=parse_duration(config.text("agent.announce_again")),
        deep_rescan_us=parse_duration(config.text("agent.deep_rescan")),
    )


def _megabytes(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1_000_000:
        raise ConfigError(f"{name} {text!r} must be a whole number of megabytes, 1 to 1000000, in quotes")
    return int(text) * MEGABYTE
