"""How large the next chunk is, and how long a chunk waits that failed: plain arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disarray.backfill.description import Processing, RetryPolicy

# How much the newest chunk counts in the moving average of what a row costs.
_WEIGHT = 0.3
# One chunk is at most so much larger or smaller than the one before: an outlier moves the size by a step.
_LARGEST_STEP = 1.5
_SMALLEST_STEP = 0.6
_LONGEST_DELAY_SECONDS = 86_400.0
# Under a rate limit; fewer and larger ones would make it go by jerks.
_CHUNKS_A_SECOND = 4


@dataclass(frozen=True, slots=True)
class Pace:
    """What is known after a chunk: the moving average of what a row costs, and the rows of the next chunk."""

    seconds_per_row: float | None
    chunk_rows: int


def next_pace(
    pace: Pace, *, rows: int, seconds: float, processing: Processing, rate_limit: float | None
) -> Pace:
    """The pace after a chunk of so many rows that took so long.

    The size moves towards what takes `target_seconds`, by at most one step a chunk and within the bounds. A chunk is
    never more than a quarter of a second of the rate limit, so that a slow job goes on evenly.
    """
    if rows <= 0:
        return pace
    cost = max(seconds, 1e-9) / rows
    average = cost if pace.seconds_per_row is None else (1 - _WEIGHT) * pace.seconds_per_row + _WEIGHT * cost
    wanted = processing.target_seconds / average
    stepped = min(max(wanted, pace.chunk_rows * _SMALLEST_STEP), pace.chunk_rows * _LARGEST_STEP)
    return Pace(average, bounded_rows(stepped, processing=processing, rate_limit=rate_limit))


def bounded_rows(rows: float, *, processing: Processing, rate_limit: float | None) -> int:
    """A size within the bounds of the job."""
    most = processing.max_rows
    if rate_limit is not None:
        most = min(most, max(1, math.ceil(rate_limit / _CHUNKS_A_SECOND)))
    return int(min(max(round(rows), min(processing.min_rows, most)), most))


def retry_delay(policy: RetryPolicy, attempts: int) -> float:
    """The seconds that a chunk waits after so many attempts."""
    exponent = min(max(attempts - 1, 0), 60)
    return min(policy.backoff_seconds * policy.multiplier**exponent, _LONGEST_DELAY_SECONDS)
