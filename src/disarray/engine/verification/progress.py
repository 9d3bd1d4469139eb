"""How far a verification is: readings done, how fast, and how long it will take yet."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS_BETWEEN_LINES = 10.0


@dataclass(slots=True)
class Progress:
    """Tells from time to time; a short run says nothing."""

    readings: int  # of all that is to be verified
    on_line: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    _began: float = field(init=False)
    _reported: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._reported = self.clock()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return self.clock() - self._began

    def advance(self, readings: int) -> None:
        """So many more readings are done."""
        self.done = min(self.done + readings, self.readings)
        now = self.clock()
        if now - self._reported < SECONDS_BETWEEN_LINES or not self.done or self.done == self.readings:
            return
        self._reported = now
        rate = self.done / (now - self._began)
        left = (self.readings - self.done) / rate
        self.on_line(
            f"{self.done:,} of {self.readings:,} readings ({100 * self.done / self.readings:.0f} %), "
            f"{rate:,.0f} a second, {_duration(left)} left"
        )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
