"""Bucket edges by walking the local clock minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from disarray.model.description.rollups import BucketKind
from disarray.model.duration import DAY, MINUTE

if TYPE_CHECKING:
    from disarray.model.description.rollups import Bucket

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001


def local_us(zone: ZoneInfo, at_us: int) -> int:
    """What the local clock shows, as if it were UTC."""
    shown = (EPOCH + timedelta(microseconds=at_us)).astimezone(zone).replace(tzinfo=None)
    return (shown - NAIVE_EPOCH) // timedelta(microseconds=1)


@lru_cache(maxsize=64)
def walk(bucket: Bucket, start_us: int, end_us: int) -> list[tuple[int, str]]:
    """(instant, label) of every bucket start from well before `start_us` until `end_us`."""
    zone = ZoneInfo(bucket.zone)
    reach = {BucketKind.MONTH: 33, BucketKind.WEEK: 9}.get(bucket.kind, 3)
    at_us = (start_us - reach * DAY) // MINUTE * MINUTE
    shown = highest = local_us(zone, at_us)
    found: list[tuple[int, str]] = []
    while at_us < end_us + reach * DAY:
        at_us += MINUTE
        before, shown = shown, local_us(zone, at_us)
        if bucket.kind is BucketKind.CLOCK:
            assert bucket.length_us is not None
            passed = range(before // MINUTE + 1, shown // MINUTE + 1) or [shown // MINUTE]
            if any(minute * MINUTE % bucket.length_us == 0 for minute in passed):
                found.append((at_us, ""))
            continue
        # Only times that have not been shown before can start something.
        label = None
        for minute in range(highest // MINUTE + 1, shown // MINUTE + 1):
            started = _starts(bucket, NAIVE_EPOCH + timedelta(minutes=minute))
            label = label if started is None else started
        highest = max(highest, shown)
        if label is not None:
            found.append((at_us, label))
    return found


def _starts(bucket: Bucket, shown: datetime) -> str | None:
    if bucket.kind is BucketKind.SHIFTS:
        return next((shift.name for shift in bucket.shifts if shift.start == shown.time()), None)
    if (shown.hour, shown.minute) != (0, 0):
        return None
    is_start = {
        BucketKind.DAY: True,
        BucketKind.WEEK: shown.weekday() == 0,
        BucketKind.MONTH: shown.day == 1,
    }[bucket.kind]
    return "" if is_start else None
