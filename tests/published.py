"""What people can read of a metric, reading by reading in plain loops; and what the ledger must say when it changes."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from disarray.model.description.metrics import MetricKind
from disarray.model.description.read_spec import KeyKind
from disarray.model.description.scan_spec import scan_spec_of
from disarray.model.segments import microseconds_of
from tests.blocks import SEGMENTS_PER_BLOCK
from tests.kernels.scan_reference import (
    Row,
    add_point,
    is_point,
    join,
    junction,
    key_text,
    merge,
    point_of,
    zero_of,
)
from tests.oracle import without_aliases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from disarray.control.values import Number, Restatement
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric
    from tests.kernels.scan_reference import Point
    from tests.oracle import Said

EXTREMES = (MetricKind.MIN, MetricKind.MAX)
# A delta of floats is one number up to the rounding of the sums.
ROUNDING = Fraction(1, 10**8)


@dataclass(frozen=True)
class Steps:
    """A metric of one channel: its value from each instant of a reading on, up to the next."""

    instants: list[int]
    numbers: list[Number | None]
    shared: frozenset[int]  # instants of more than one reading

    def at(self, at_us: int) -> Number | None:
        """The value that holds at an instant; None before the first reading."""
        place = bisect_right(self.instants, at_us)
        return self.numbers[place - 1] if place else None


Published = dict[tuple[str, str], Steps]


def published(dataset: Dataset, subject: str, said: Sequence[Said]) -> Published:
    """Every metric and channel that these readings make readable."""
    spec = scan_spec_of(dataset, subject)
    by_segment: defaultdict[int, list[Said]] = defaultdict(list)
    for each in said:
        by_segment[each.row.event_us // dataset.segment_length_us * dataset.segment_length_us].append(each)
    known = {attribute.name: attribute.value for attribute in spec.attributes}
    winners: list[list[Row]] = []
    blocks: defaultdict[int, list[list[Row]]] = defaultdict(list)
    for segment_us in sorted(by_segment):
        own = by_segment[segment_us]
        rows = without_aliases(own) if spec.key.kind is KeyKind.NONE else [each.row for each in own]
        winners.append(merge(rows, spec).winners)
        blocks[segment_us // (SEGMENTS_PER_BLOCK * dataset.segment_length_us)].append(winners[-1])
        for row in winners[-1]:
            row.values.update(known)
    channels = sorted({row.channel for rows in winners for row in rows})
    found = {}
    for metric in dataset.metrics:
        for channel in channels:
            steps: dict[int, Number | None] = {}
            times = Counter(row.event_us for rows in winners for row in rows if row.channel == channel)
            own_blocks = [
                [mine for rows in block if (mine := [row for row in rows if row.channel == channel])]
                for block in blocks.values()
            ]
            for at_us, number in _walk(metric, [block for block in own_blocks if block]):
                steps[at_us] = number
            shared = frozenset(at_us for at_us, count in times.items() if count > 1)
            found[metric.name, channel] = Steps(list(steps), list(steps.values()), shared)
    return found


def _walk(metric: Metric, blocks: Sequence[Sequence[Sequence[Row]]]) -> Iterator[tuple[int, Number | None]]:
    """The value after each reading of one channel, in order: segments within their block, and block after block."""
    zero = zero_of(metric)
    # Of the piece that came last: its base, its fold, the last point and the reset in force.
    base, local, last, key, begun = zero, zero, None, None, False
    for block in blocks:
        ground = before = zero
        if not begun or key_text(block[0][0], metric.reset_on) != key:
            last = None
        else:
            before = join(metric, base, local)
            rows = (row for segment in block for row in segment)
            ground = join(metric, base, join(metric, local, _step(metric, last, rows)))
        # As if history began with the block; until a reset, `ground` is added to it.
        own_end, own_base, own_last, is_carried = zero, zero, None, True
        local = zero
        for index, segment in enumerate(block):
            is_head = True
            point: Point | None = None
            for number, row in enumerate(segment):
                own_key = key_text(row, metric.reset_on)
                is_reset = begun and own_key != key
                if number and is_reset:
                    is_head = is_carried = False
                    own_base, own_last, local, point = zero, None, zero, None
                elif index and not number and is_reset:
                    is_carried = False
                    own_end, own_base, own_last, local = zero, zero, None, zero
                elif index and not number:
                    own_end = join(metric, own_base, local)
                    step = _step(metric, own_last, segment)
                    own_base, local = join(metric, own_base, join(metric, local, step)), zero
                begun, key = True, own_key
                is_behind_a_point = own_last is not None
                if is_point(row, metric.input, metric.where):
                    now = point_of(metric, row)
                    local = add_point(metric, local, point, now)
                    point = own_last = now
                if not is_head:
                    yield row.event_us, local
                elif point is None:
                    reached = ground if is_behind_a_point else before
                    yield row.event_us, join(metric, reached, own_end) if is_carried else own_end
                else:
                    reached = join(metric, ground, own_base) if is_carried else own_base
                    yield row.event_us, join(metric, reached, local)
        base = own_base
        if is_carried:
            base = join(metric, ground if own_last is not None else before, own_base)
            last = own_last or last
        else:
            last = own_last


def _step(metric: Metric, last: Point | None, rows: Iterable[Row]) -> Number | None:
    """From the last point to the first one of these readings, if it comes before a reset."""
    zero = zero_of(metric)
    if metric.kind in EXTREMES or last is None:
        return zero
    points = (row for row in _head(rows, metric) if is_point(row, metric.input, metric.where))
    first = next(points, None)
    return zero if first is None else junction(metric, last, point_of(metric, first))


def _head(rows: Iterable[Row], metric: Metric) -> Iterator[Row]:
    """Readings up to the first reset."""
    first: str | None = None
    for number, row in enumerate(rows):
        key = key_text(row, metric.reset_on)
        if number and key != first:
            return
        first = key
        yield row


def same(left: Number | None, right: Number | None) -> bool:
    """Bit for bit in one type: 0.0 is not -0.0. Where a metric turned from one type into the other, the same number."""
    if left is None or right is None or isinstance(left, float) is isinstance(right, float):
        return repr(left) == repr(right)
    return Fraction(left) == Fraction(right)


def violations(
    old: Published,
    new: Published,
    spans: Sequence[Restatement],
    *,
    newest_us: int,
    restate_after_us: int,
) -> Iterator[str]:
    """Where the ledger does not lead from what was readable to what is."""
    limit_us = newest_us - restate_after_us
    by_series: defaultdict[tuple[str, str], list[Restatement]] = defaultdict(list)
    for span in spans:
        by_series[span.metric, span.channel].append(span)
    for series, own in by_series.items():
        if series not in old:
            yield f"{series} was never readable, and is restated: {own}"
    for series, steps in old.items():
        if series[0] not in {metric for metric, _ in new} and new:
            if series in by_series:
                yield f"{series} has nothing to be compared with, and is restated"
            continue
        after = new.get(series, Steps([], [], frozenset()))
        for message in _series_violations(steps, after, by_series[series], limit_us=limit_us):
            yield f"{series}: {message}"


def _series_violations(
    old: Steps, new: Steps, spans: Sequence[Restatement], *, limit_us: int
) -> Iterator[str]:
    is_exact = not any(isinstance(number, float) for number in (*old.numbers, *new.numbers))
    shared = old.shared | new.shared
    bounds = []
    for span in spans:
        assert span.changed_to is not None
        from_us, to_us = microseconds_of(span.changed_from), microseconds_of(span.changed_to)
        bounds.append((from_us, to_us, span))
        if not old.instants[0] <= from_us <= to_us <= old.instants[-1]:
            yield f"{span} reaches beyond what was readable"
        if from_us >= limit_us:
            yield f"{span} concerns only what nobody has used"
        # A summary knows the value after the last reading before a reset, also where the reset is at the same instant
        # and nobody could read it: what could be read just before is not kept.
        if to_us + 1 not in shared and not (same(old.at(to_us), span.old) and same(new.at(to_us), span.new)):
            yield f"{span} ends otherwise: {old.at(to_us)!r} became {new.at(to_us)!r}"
        if from_us not in shared and not (
            same(old.at(from_us), span.first_old) and same(new.at(from_us), span.first_new)
        ):
            yield f"{span} begins otherwise: {old.at(from_us)!r} became {new.at(from_us)!r}"
    changed = set()
    for at_us in sorted({*old.instants, *new.instants}):
        before, after = old.at(at_us), new.at(at_us)
        if at_us < old.instants[0] or at_us > old.instants[-1] or before is None:
            continue
        covering = [span for from_us, to_us, span in bounds if from_us <= at_us <= to_us]
        if len(covering) > 1:
            yield f"{at_us} is told twice: {covering}"
        if not covering:
            if at_us < limit_us and not same(before, after):
                yield f"{before!r} became {after!r} at {at_us}, which is not listed"
            continue
        if not same(before, after):
            changed.add(id(covering[0]))
        if (message := _told_wrong(covering[0], before, after, is_exact=is_exact)) is not None:
            yield f"{message} at {at_us} in {covering[0]}"
    for span in spans:
        # A summary knows the first of several readings at one instant, whose value nobody could read.
        is_shared = microseconds_of(span.changed_from) in shared
        if is_exact and not is_shared and id(span) not in changed:
            yield f"{span} lists a change that there is not"


def _told_wrong(span: Restatement, before: Number, after: Number | None, *, is_exact: bool) -> str | None:
    if span.new is None or after is None:
        return None if span.new is None and after is None else f"{before!r} became {after!r}"
    difference = Fraction(after) - Fraction(before)
    numbers = [before, after, span.old, span.new, span.first_old, span.first_new]
    size = max(abs(Fraction(number)) for number in numbers if number is not None)
    room = Fraction(0) if is_exact else size * ROUNDING + Fraction(math.ulp(0.0)) * 4
    if span.delta is not None and abs(difference - Fraction(span.delta)) > room:
        return f"{before!r} became {after!r}"
    if span.least is None or span.greatest is None:
        return "its bounds are not known"
    if not Fraction(span.least) - room <= difference <= Fraction(span.greatest) + room:
        return f"{before!r} became {after!r}"
    return None
