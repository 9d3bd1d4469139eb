"""Bases added up once more from summaries: by a walk along each series, where SQL takes windows over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from disarray.control.audit import Finding
from disarray.model.segments import datetime_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disarray.control.audit_catalog import ChainLink

RULE = "bases_follow_from_summaries"
# Below this neither kernels nor SQL count an integral: see telemetry.junction_float.
_UNDERFLOW = 1e-280

Number: TypeAlias = float | None


@dataclass(frozen=True, slots=True)
class _Point:
    us: int
    value: float
    broken_by: str | None


@dataclass(slots=True)
class _Walk:
    """Where a walk along a series stands: what the last piece was added to, what it added, and its last point."""

    base: Number
    total: Number
    last_point: _Point | None
    reset: str | None


def find_wrong_bases(
    subject_key: str, links: Sequence[ChainLink], stale_from_us: Mapping[str, int]
) -> Iterator[Finding]:
    """Links whose base is not the sum of those before it, bit for bit; what is known to be stale is left out."""
    final_before = {
        dataset: max((link.segment_us for link in links if link.segment_us <= stale_us), default=stale_us)
        for dataset, stale_us in stale_from_us.items()
    }
    walk: _Walk | None = None
    series: tuple[str, str, str] | None = None
    for link in links:
        if link.series != series:
            walk, series = None, link.series
        before, base = _expected(link, walk)
        walk = _after(link, walk, base)
        if link.dataset in final_before and link.segment_us >= final_before[link.dataset]:
            continue
        stored = (link.before_int, link.base_int) if link.is_integer else (link.before_float, link.base_float)
        if _bits(stored) != _bits((before, base)):
            yield Finding(
                RULE,
                f"{link.dataset}/{subject_key} {datetime_of(link.segment_us):%Y-%m-%dT%H:%M:%SZ}",
                f"{link.metric}{f' of {link.channel}' if link.channel else ''}: stored before and base are {stored}, "
                f"the summaries give {(before, base)}",
            )


def _expected(link: ChainLink, walk: _Walk | None) -> tuple[Number, Number]:
    """The value before a piece, and the base of the fold within it."""
    is_extreme = link.kind in ("min", "max")
    if walk is None or _starts_anew(link, walk):
        zero = None if is_extreme else 0 if link.is_integer else 0.0
        return zero, zero
    if is_extreme:
        known = [each for each in (walk.base, walk.total) if each is not None]
        extreme = (min(known) if link.kind == "min" else max(known)) if known else None
        return extreme, extreme
    if walk.base is None or walk.total is None:
        return None, walk.base
    return walk.base + walk.total, walk.base + (walk.total + _junction(link, walk.last_point))


def _after(link: ChainLink, walk: _Walk | None, base: Number) -> _Walk:
    last_point = None if walk is None or _starts_anew(link, walk) else walk.last_point
    value = link.last_int if link.is_integer else link.last_float
    if link.points and link.last_us is not None and value is not None:
        last_point = _Point(link.last_us, value, link.last_break)
    return _Walk(base, link.total_int if link.is_integer else link.total_float, last_point, link.last_reset)


def _starts_anew(link: ChainLink, walk: _Walk) -> bool:
    return link.piece == 1 or link.first_reset != walk.reset


def _junction(link: ChainLink, earlier: _Point | None) -> float:
    """The step from the last point before a piece to its first one."""
    value = link.first_int if link.is_integer else link.first_float
    nothing = 0 if link.is_integer else 0.0
    if earlier is None or link.first_us is None or value is None:
        return nothing
    if link.kind == "increase":
        return value if value < earlier.value else value - earlier.value
    if link.kind != "integral" or link.max_gap_us is None:
        return nothing
    gap_us = link.first_us - earlier.us
    if gap_us > link.max_gap_us or earlier.broken_by != link.first_break:
        return nothing
    if link.method == "previous":
        return 0.0 if abs(earlier.value) < _UNDERFLOW else earlier.value * (gap_us / 1e6)
    if abs(earlier.value + value) < _UNDERFLOW:
        return 0.0
    return ((earlier.value + value) * 0.5) * (gap_us / 1e6)


def _bits(numbers: tuple[Number, Number]) -> list[object]:
    return [number.hex() if isinstance(number, float) else number for number in numbers]
