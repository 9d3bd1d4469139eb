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
    from collections.abc import Iterator, Sequence

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
    for segment_us in sorted(by_segment):
        own = by_segment[segment_us]
        rows = without_aliases(own) if spec.key.kind is KeyKind.NONE else [each.row for each in own]
        winners.append(merge(rows, spec).winners)
        for row in winners[-1]:
            row.values.update(known)
    channels = sorted({row.channel for rows in winners for row in rows})
    found = {}
    for metric in dataset.metrics:
        for channel in channels:
            steps: dict[int, Number | None] = {}
            times = Counter(row.event_us for rows in winners for row in rows if row.channel == channel)
            for at_us, number in _walk(
                metric, [[r for r in rows if r.channel == channel] for rows in winners]
            ):
                steps[at_us] = number
            shared = frozenset(at_us for at_us, count in times.items() if count > 1)
            found[metric.name, channel] = Steps(list(steps), list(steps.values()), shared)
    return found


def _walk(metric: Metric, segments: Sequence[Sequence[Row]]) -> Iterator[tuple[int, Number | None]]:
    """The value after each reading of one channel, in order."""
    zero = zero_of(metric)
    end: Number | None = zero  # of the piece that is under way: what its base and its fold come to
    base, last, key, begun = zero, None, None, False
    local: Number | None = zero
    for rows in segments:
        is_head = True
        point: Point | None = None
        for number, row in enumerate(rows):
            own_key = key_text(row, metric.reset_on)
            if begun and number and own_key != key:
                is_head, point, local, last, base = False, None, zero, None, zero
            elif number == 0:
                if not begun or own_key != key:
                    end, last, base, local = zero, None, zero, zero
                else:
                    end = join(metric, base, local)
                    first = next(
                        (
                            point_of(metric, each)
                            for each in _head(rows, metric)
                            if is_point(each, metric.input, metric.where)
                        ),
                        None,
                    )
                    step = zero
                    if metric.kind not in EXTREMES and first is not None and last is not None:
                        step = junction(metric, last, first)
                    base, local = join(metric, base, join(metric, local, step)), zero
            begun, key = True, own_key
            if is_point(row, metric.input, metric.where):
                now = point_of(metric, row)
                local = add_point(metric, local, point, now)
                point = last = now
            if not is_head:
                yield row.event_us, local
            elif point is None:
                yield row.event_us, end
            else:
                yield row.event_us, join(metric, base, local)


def _head(rows: Sequence[Row], metric: Metric) -> Iterator[Row]:
    """The readings of a segment up to its first reset."""
    for row in rows:
        if key_text(row, metric.reset_on) != key_text(rows[0], metric.reset_on):
            return
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
