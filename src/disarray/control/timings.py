"""How long things take in this process. What survives a restart is counted in the database instead."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BOUNDS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations by class: no longer than each bound and longer than the one before, and beyond the last."""

    counts: tuple[int, ...]
    seconds: float


NO_TIMING = Timing((0,) * (len(BOUNDS_SECONDS) + 1), 0.0)


class Timings:
    """Durations by what was done and, where it matters, of which kind. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], list[int]] = {}
        self._seconds: dict[tuple[str, str], float] = {}

    def observe(self, name: str, seconds: float, *, kind: str = "") -> None:
        """Count one duration."""
        with self._lock:
            counts = self._counts.setdefault((name, kind), [0] * (len(BOUNDS_SECONDS) + 1))
            counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
            self._seconds[name, kind] = self._seconds.get((name, kind), 0.0) + seconds

    @contextmanager
    def timed(self, name: str, *, kind: str = "") -> Iterator[None]:
        """Count how long a block takes, also one that fails."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.observe(name, time.perf_counter() - began, kind=kind)

    def of(self, name: str) -> dict[str, Timing]:
        """What was counted so far, by kind."""
        with self._lock:
            return {
                kind: Timing(tuple(counts), self._seconds[known, kind])
                for (known, kind), counts in self._counts.items()
                if known == name
            }


# Of this process: a worker counts its commits here, and the REST server beside it tells them.
TIMINGS = Timings()
