"""Local stamps to UTC with the pinned tzdata: no host's own zone files, no guess about repeated hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np

from disarray.errors import ConfigError
from disarray.model.fingerprints import FoldMark

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = datetime(1900, 1, 1, tzinfo=UTC)
_END = datetime(2200, 1, 1, tzinfo=UTC)
# A stamp outside is an instrument without a set clock; inside, every zone's rules are known or foreseeable.
FIRST_EVENT_US = (_FIRST - _EPOCH) // _MICROSECOND
END_EVENT_US = (_END - _EPOCH) // _MICROSECOND


@dataclass(frozen=True, slots=True)
class ZoneTable:
    """Local time cut at every change of offset: between `edges[2k]` and `edges[2k+1]` an hour is lost or repeated.

    `offsets[k]` holds between change k-1 and change k.
    """

    edges: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def to_utc(
        self, local_us: NDArray[np.int64], folds: tuple[FoldMark, ...]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None, tuple[FoldMark, ...]]:
        """Return UTC, a mask of stamps in a spring gap (None if there are none), and the fold marks after them.

        A repeated stamp counts as the earlier one until the file's time runs backwards within the repeated
        hour, and as the later one from there on; `folds` carries that knowledge from one part of a file to
        the next.
        """
        utc_us, in_gap = self.earlier(local_us)
        if len(local_us) and self.is_ambiguous(local_us):
            piece = np.searchsorted(self.edges, local_us, side="right")
            for odd in np.unique(piece[piece % 2 == 1]).tolist():
                before, after = self.offsets[odd // 2], self.offsets[odd // 2 + 1]
                if after < before:
                    rows = np.flatnonzero(piece == odd)
                    later, folds = _later_rows(local_us[rows], int(self.edges[odd - 1]), folds)
                    utc_us[rows[later]] += before - after
        return utc_us, in_gap, folds

    def earlier(self, local_us: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return UTC, the earlier one of repeated stamps, and a mask of stamps in a spring gap."""
        if not len(local_us):
            return local_us, None
        low, high = np.searchsorted(self.edges, [local_us.min(), local_us.max()], side="right").tolist()
        if low == high and low % 2 == 0:
            return local_us - self.offsets[low // 2], None
        piece = np.searchsorted(self.edges, local_us, side="right")
        change = piece // 2
        utc_us = local_us - self.offsets[change]
        after = self.offsets[np.minimum(change + 1, len(self.offsets) - 1)]
        in_gap = (piece % 2 == 1) & (after > self.offsets[change])
        return utc_us, in_gap if in_gap.any() else None

    def is_ambiguous(self, local_us: NDArray[np.int64]) -> bool:
        """Whether any stamp lies in a lost or repeated hour."""
        if not len(local_us):
            return False
        low, high = np.searchsorted(self.edges, [local_us.min(), local_us.max()], side="right").tolist()
        if low == high:
            return bool(low % 2)
        return bool((np.searchsorted(self.edges, local_us, side="right") % 2).any())

    def instant(self, local_us: int) -> int | None:
        """One stamp to UTC, the earlier fold; None in a spring gap."""
        utc_us, in_gap = self.earlier(np.array([local_us], dtype=np.int64))
        return None if in_gap is not None else int(utc_us[0])


def _later_rows(
    local_us: NDArray[np.int64], start_us: int, folds: tuple[FoldMark, ...]
) -> tuple[NDArray[np.bool_], tuple[FoldMark, ...]]:
    mark = next((fold for fold in folds if fold.start_us == start_us), None) or FoldMark(
        start_us, start_us, False
    )
    high_us = np.maximum.accumulate(np.concatenate([[mark.high_us], local_us]))
    later = np.logical_or.accumulate(np.concatenate([[mark.later], local_us < high_us[:-1]]))
    marked = FoldMark(start_us, int(high_us[-1]), bool(later[-1]))
    others = [fold for fold in folds if fold.start_us != start_us]
    return later[1:], tuple(sorted([*others, marked], key=lambda fold: fold.start_us))


@lru_cache(maxsize=64)
def load_zone(name: str) -> ZoneTable:
    """The table of one IANA zone; looking at every day of three centuries takes a tenth of a second, once."""
    zone = pinned_zone(name)
    if name == "UTC":
        return ZoneTable(np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64))
    changes: list[tuple[int, int]] = []
    day, offset = _FIRST, _offset_at(_FIRST, zone)
    offsets = [offset]
    while day < _END:
        next_day = day + _DAY
        next_offset = _offset_at(next_day, zone)
        if next_offset != offset:
            changes.append((_bisect(day, next_day, zone), len(offsets)))
            offsets.append(next_offset)
            offset = next_offset
        day = next_day
    edges = [
        edge
        for at_us, index in changes
        for edge in sorted((at_us + offsets[index - 1], at_us + offsets[index]))
    ]
    assert edges == sorted(edges), f"changes of {name} overlap"
    return ZoneTable(np.array(edges, dtype=np.int64), np.array(offsets, dtype=np.int64))


def pinned_zone(name: str) -> ZoneInfo:
    """The zone as the installed tzdata package knows it, whatever the host's own files say."""
    path = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    try:
        with path.open("rb") as stream:
            return ZoneInfo.from_file(stream, key=name)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name!r} is not a time zone; use an IANA name such as 'Europe/Berlin'") from error


def _offset_at(instant: datetime, zone: ZoneInfo) -> int:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset // _MICROSECOND


def _bisect(before: datetime, after: datetime, zone: ZoneInfo) -> int:
    offset = _offset_at(before, zone)
    low, high = (before - _EPOCH) // timedelta(seconds=1), (after - _EPOCH) // timedelta(seconds=1)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(_EPOCH + timedelta(seconds=middle), zone) == offset:
            low = middle
        else:
            high = middle
    return high * 1_000_000
