"""How long to wait before the next attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass


def jittered(delay_s: float) -> float:
    """A delay less up to a quarter, so that those who failed together do not return together."""
    return delay_s * random.uniform(0.75, 1.0)  # noqa: S311 - spreads load, guards nothing


@dataclass(slots=True)
class Backoff:
    """Doubles from `first_s` to `longest_s`, less up to a quarter, so that twenty agents do not return at once."""

    first_s: float = 0.5
    longest_s: float = 30.0
    _failures: int = 0

    def failed(self) -> float:
        """Count a failure; the seconds to wait."""
        delay = min(self.longest_s, self.first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return jittered(delay)

    def succeeded(self) -> None:
        """Start over."""
        self._failures = 0
