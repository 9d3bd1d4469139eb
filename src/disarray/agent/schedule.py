"""When to look at what: files that change soon, old ones rarely, and never more often than the share can bear."""

from __future__ import annotations

import re
from dataclasses import dataclass

from disarray.errors import ConfigError
from disarray.model.duration import LONGEST, parse_duration

# A scan may take this share of the time, so that a large or slow share is not looked at without a break.
_BUSY_SHARE = 0.1

_TIER = re.compile(r"\s*(?:older|(?P<age>.+?))\s+every\s+(?P<every>.+?)\s*")


@dataclass(frozen=True, slots=True)
class Tier:
    """Files that changed within `age_us` are looked at every `every_us`."""

    age_us: int
    every_us: int


def parse_tiers(text: str) -> tuple[Tier, ...]:
    """Tiers from "1 h every 1 s, 7 d every 1 min, older every 10 min"; the last one takes all the rest."""
    tiers = []
    for part in text.split(","):
        match = _TIER.fullmatch(part)
        if match is None:
            raise ConfigError(
                f"agent.tiers: {part.strip()!r} is no tier; write '1 h every 1 s, older every 10 min'"
            )
        age_us = parse_duration(match["age"]) if match["age"] else LONGEST
        tiers.append(Tier(age_us, parse_duration(match["every"])))
    ages = [tier.age_us for tier in tiers]
    if ages != sorted(set(ages)) or ages[-1] != LONGEST:
        raise ConfigError(f"agent.tiers: {text!r} must go from young to old and end with 'older every …'")
    return tuple(tiers)


class Schedule:
    """Says which files the next scan has to look at; times are microseconds of any one clock."""

    def __init__(self, tiers: tuple[Tier, ...], *, scan_every_us: int) -> None:
        self._tiers = tiers
        self._scan_every_us = scan_every_us
        self._next_us = 0
        self._looked_us = [-LONGEST for _ in tiers]

    def until_next_us(self, now_us: int) -> int:
        """How long until the next scan is due; 0 or less: now."""
        return self._next_us - now_us

    def begin(self, now_us: int) -> tuple[tuple[int, int], ...]:
        """Begin a scan: the spans of age (at least, less than) that are due in it. New files always are."""
        due = []
        youngest_us = -LONGEST  # a file from the future is a young one
        for index, tier in enumerate(self._tiers):
            # A clock that was set back would otherwise keep a tier waiting for as long as it was set back by.
            if not self._looked_us[index] <= now_us < self._looked_us[index] + tier.every_us:
                self._looked_us[index] = now_us
                due.append((youngest_us, tier.age_us))
            youngest_us = tier.age_us
        return tuple(due)

    def end(self, now_us: int, *, listing_us: int, has_more: bool) -> None:
        """End a scan; the longer the listing took, the longer the pause, unless work was left over."""
        pause_us = max(self._scan_every_us - listing_us, int(listing_us * (1 / _BUSY_SHARE - 1)))
        self._next_us = now_us if has_more else now_us + max(0, pause_us)

    def look_at_all_next(self) -> None:
        """Make every tier due, now."""
        self._looked_us = [-LONGEST for _ in self._tiers]
        self._next_us = 0
