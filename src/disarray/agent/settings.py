"""The `[agent]` settings as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.agent.schedule import Tier, parse_tiers
from disarray.config import default_config
from disarray.model.duration import DAY

if TYPE_CHECKING:
    from disarray.config import Config

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How often, how much, and what not; times in microseconds."""

    scan_every_us: int
    tiers: tuple[Tier, ...]
    ignore: tuple[str, ...]
    spool_bytes: int
    announce_again_us: int
    deep_rescan_us: int
    forget_after_us: int = 30 * DAY
    # What one scan takes on before it looks again whether something fresher came.
    read_budget_bytes: int = 512 * MEGABYTE
    read_budget_files: int = 5_000
    review_budget_bytes: int = 64 * MEGABYTE


def agent_settings(config: Config) -> AgentSettings:
    """The `[agent]` settings of a configuration."""
    return AgentSettings(
        scan_every_us=config.length_us("agent.scan_every"),
        tiers=parse_tiers(config.text("agent.tiers")),
        ignore=config.words("agent.ignore"),
        spool_bytes=config.number("agent.spool_mb") * MEGABYTE,
        announce_again_us=config.length_us("agent.announce_again"),
        deep_rescan_us=config.length_us("agent.deep_rescan"),
    )


def monitoring_address(config: Config) -> tuple[str, int] | None:
    """Where the agent tells its figures; None where it does not."""
    if not config.is_set("agent.metrics_port"):
        return None
    return config.text("agent.metrics_host"), config.number("agent.metrics_port")


DEFAULTS = agent_settings(default_config())
