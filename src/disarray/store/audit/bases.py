"""Bases added up once more from summaries: a walk along each series, block by block, where SQL takes windows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias, assert_never

from disarray.control.audit import Finding
from disarray.model.description.metrics import MetricKind
from disarray.model.segments import datetime_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disarray.control.audit_catalog import ChainLink
    from disarray.control.blocks import MetricBlock

RULE = "bases_follow_from_summaries"
BLOCKS = "blocks_follow_from_summaries"
# Below this neither kernels nor SQL count an integral: see telemetry.junction_float.
_UNDERFLOW = 1e-280

Number: TypeAlias = float | None


@dataclass(frozen=True, slots=True)
class _Point:
    us: int
    value: float
    broken_by: str | None


@dataclass(frozen=True, slots=True)
class _Step:
    """A piece with what a walk to it carried along."""

    link: ChainLink
    base: Number
    before: Number
    prior: _Point | None
    is_carried: bool = True

    @property
    def point(self) -> _Point | None:
        """The last point, of this piece or before it."""
        return _last_point(self.link) or self.prior


def find_wrong_bases(
    subject_key: str,
    links: Sequence[ChainLink],
    blocks: Sequence[MetricBlock],
    *,
    block_lengths_us: Mapping[str, int],
    stale_from_us: Mapping[str, int],
) -> Iterator[Finding]:
    """Links and blocks that are not what those before them add up to, bit for bit; what is stale is left out."""
    final_before = {
        dataset: max((link.segment_us for link in links if link.segment_us <= stale_us), default=stale_us)
        for dataset, stale_us in stale_from_us.items()
    }
    stored = {((block.dataset, block.metric, block.channel), block.block_us): block for block in blocks}
    for series, own in groupby(links, key=lambda link: link.series):
        length_us = block_lengths_us.get(series[0])
        if length_us is None:
            yield Finding(BLOCKS, f"{series[0]}/{subject_key}", "nothing says how long its blocks are")
            continue
        final_us = final_before.get(series[0])
        former: _Step | None = None
        for block_us, pieces in groupby(own, key=lambda link: link.segment_us // length_us * length_us):
            block = _Block.of(block_us, list(pieces), former)
            found = stored.pop((series, block_us), None)
            if final_us is None or block_us + length_us <= final_us:
                yield from _block_findings(subject_key, block, found)
            for step, within in zip(block.steps, block.within, strict=True):
                if final_us is None or step.link.segment_us < final_us:
                    yield from _step_findings(subject_key, step, within, block_us)
            former = block.steps[-1]
    for series, block_us in stored:
        if series[0] not in final_before:
            yield Finding(
                BLOCKS, _place(series[0], subject_key, block_us), f"{series[1]}: no piece lies in the block"
            )


@dataclass(frozen=True, slots=True)
class _Block:
    """The pieces of a block: as if history began with it, and with what came before."""

    block_us: int
    within: list[_Step]
    steps: list[_Step]
    start: _Step  # its own base, value before it and last point before it

    @classmethod
    def of(cls, block_us: int, links: Sequence[ChainLink], former: _Step | None) -> _Block:
        within: list[_Step] = []
        for link in links:
            within.append(_next(link, within[-1] if within else None, link))
        opening = next((each.link for each in within if each.is_carried and each.link.points), None)
        start = _next(links[0], former, opening)
        steps = [_moved(each, start) if each.is_carried else each for each in within]
        return cls(block_us, within, steps, start)


def _next(link: ChainLink, former: _Step | None, opening: ChainLink | None) -> _Step:
    """A piece behind another; `opening` has the point that is continued with."""
    is_extreme = MetricKind(link.kind).is_extreme
    if former is None or link.piece == 1 or link.first_reset != former.link.last_reset:
        zero: Number = None if is_extreme else 0 if link.is_integer else 0.0
        return _Step(link, zero, zero, None, former is None and link.piece == 0)
    total = former.link.total_int if link.is_integer else former.link.total_float
    if is_extreme:
        extreme = joined(link, former.base, total)
        return _Step(link, extreme, extreme, former.point, former.is_carried)
    if former.base is None or total is None:
        return _Step(link, former.base, None, former.point, former.is_carried)
    step = _junction(opening, former.point) if opening is not None else (0 if link.is_integer else 0.0)
    return _Step(link, former.base + (total + step), former.base + total, former.point, former.is_carried)


def _moved(within: _Step, start: _Step) -> _Step:
    """A piece that the base of its block reaches."""
    is_behind_a_point = within.prior is not None
    return _Step(
        within.link,
        joined(
            within.link, start.base if is_behind_a_point or within.link.points else start.before, within.base
        ),
        joined(within.link, start.base if is_behind_a_point else start.before, within.before),
        within.prior or start.prior,
        within.is_carried,
    )


def joined(link: ChainLink, left: Number, right: Number) -> Number:
    """Two parts of a value of this link's metric as one."""
    kind = MetricKind(link.kind)
    match kind:
        case MetricKind.MIN:
            return min((each for each in (left, right) if each is not None), default=None)
        case MetricKind.MAX:
            return max((each for each in (left, right) if each is not None), default=None)
        case MetricKind.SUM | MetricKind.COUNT | MetricKind.INTEGRAL | MetricKind.INCREASE:
            return None if left is None or right is None else left + right
        case _:
            assert_never(kind)


def _step_findings(subject_key: str, step: _Step, within: _Step, block_us: int) -> Iterator[Finding]:
    link = step.link
    stored: tuple[Number, Number] = (link.before_int, link.base_int)
    offsets: tuple[Number, Number] = (link.offset_before_int, link.offset_int)
    if not link.is_integer:
        stored = (link.before_float, link.base_float)
        offsets = (link.offset_before_float, link.offset_float)
    place = _place(link.dataset, subject_key, link.segment_us)
    name = f"{link.metric}{f' of {link.channel}' if link.channel else ''}"
    if _bits(stored) != _bits((step.before, step.base)):
        yield Finding(
            RULE,
            place,
            f"{name}: stored before and base are {stored}, the summaries give {(step.before, step.base)}",
        )
    expected = (within.before, within.base, within.is_carried, block_us)
    if _bits((*offsets, link.is_carried, link.block_us)) != _bits(expected):
        yield Finding(
            RULE,
            place,
            f"{name}: stored within its block are {(*offsets, link.is_carried, link.block_us)}, "
            f"the summaries give {expected}",
        )


def _block_findings(subject_key: str, block: _Block, stored: MetricBlock | None) -> Iterator[Finding]:
    link = block.start.link
    place = _place(link.dataset, subject_key, block.block_us)
    if stored is None:
        yield Finding(BLOCKS, place, f"{link.metric}: the block has pieces and no base")
        return
    for name, value in _block_columns(block).items():
        found = getattr(stored, name)
        if _bits((found,)) != _bits((value,)):
            yield Finding(
                BLOCKS, place, f"{link.metric}: stored {name} is {found}, the summaries give {value}"
            )


def _block_columns(block: _Block) -> dict[str, object]:
    """All that is stored of a block."""
    carried = [each.link for each in block.within if each.is_carried]
    opening = next((link for link in carried if link.points), None)
    tails = {each.link.segment_us: each.link for each in block.within if each.link.piece == 1}
    readable = [link.segment_us for link in carried if _can_be_read(link, tails.get(link.segment_us))]
    ending = block.within[-1]
    first = block.steps[0].link
    columns: dict[str, object] = {
        "kind": first.kind,
        "first_us": opening.first_us if opening else None,
        "first_break": opening.first_break if opening else None,
        "first_reset": first.first_reset,
        "restarts": not ending.is_carried,
        "last_us": ending.point.us if ending.point else None,
        "last_break": ending.point.broken_by if ending.point else None,
        "last_reset": ending.link.last_reset,
        "head_segment_us": max(readable, default=None),
        "prior_us": block.start.prior.us if block.start.prior else None,
        "prior_break": block.start.prior.broken_by if block.start.prior else None,
    }
    kind, other = ("int", "float") if first.is_integer else ("float", "int")
    numbers = {
        "first": getattr(opening, f"first_{kind}") if opening else None,
        "offset": ending.base,
        "total": getattr(ending.link, f"total_{kind}"),
        "last": ending.point.value if ending.point else None,
        "base": block.start.base,
        "before": block.start.before,
        "prior": block.start.prior.value if block.start.prior else None,
    }
    for name, number in numbers.items():
        columns[f"{name}_{kind}"], columns[f"{name}_{other}"] = number, None
    return columns


def _can_be_read(link: ChainLink, tail: ChainLink | None) -> bool:
    """Whether a reset hides nothing, or not all of a piece."""
    hidden_from_us = link.reset_us
    if hidden_from_us is None and tail is not None:
        hidden_from_us = tail.first_reading_us
    if hidden_from_us is None:
        return True
    return hidden_from_us > (link.segment_us if link.first_reading_us is None else link.first_reading_us)


def _last_point(link: ChainLink) -> _Point | None:
    value = link.last_int if link.is_integer else link.last_float
    if link.points and link.last_us is not None and value is not None:
        return _Point(link.last_us, value, link.last_break)
    return None


def _place(dataset: str, subject_key: str, segment_us: int) -> str:
    return f"{dataset}/{subject_key} {datetime_of(segment_us):%Y-%m-%dT%H:%M:%SZ}"


def _junction(link: ChainLink, earlier: _Point | None) -> float:
    """The step from the last point before a piece to its first one."""
    value = link.first_int if link.is_integer else link.first_float
    nothing = 0 if link.is_integer else 0.0
    if earlier is None or link.first_us is None or value is None:
        return nothing
    kind = MetricKind(link.kind)
    match kind:
        case MetricKind.SUM | MetricKind.COUNT | MetricKind.MIN | MetricKind.MAX:
            return nothing
        case MetricKind.INCREASE:
            return value if value < earlier.value else value - earlier.value
        case MetricKind.INTEGRAL:
            return _area(link, earlier, link.first_us, value)
        case _:
            assert_never(kind)


def _area(link: ChainLink, earlier: _Point, first_us: int, value: float) -> float:
    if link.max_gap_us is None:
        return 0.0
    gap_us = first_us - earlier.us
    if gap_us > link.max_gap_us or earlier.broken_by != link.first_break:
        return 0.0
    if link.method == "previous":
        return 0.0 if abs(earlier.value) < _UNDERFLOW else earlier.value * (gap_us / 1e6)
    if abs(earlier.value + value) < _UNDERFLOW:
        return 0.0
    return ((earlier.value + value) * 0.5) * (gap_us / 1e6)


def _bits(values: Sequence[object]) -> list[object]:
    return [value.hex() if isinstance(value, float) else value for value in values]
