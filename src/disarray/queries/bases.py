"""What summaries and bases alone say of a metric, without a look into the lake."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from disarray.model.description.metrics import MetricKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disarray.control.values import MetricPiece, Number
    from disarray.model.description.metrics import Metric


@dataclass(frozen=True, slots=True)
class ChannelSegment:
    """One metric of one channel in one segment: its first piece, and the one from the last reset on."""

    head: MetricPiece
    tail: MetricPiece

    @property
    def first_us(self) -> int:
        """When the channel was first read here; at the earliest, where that was not kept."""
        return self.head.segment_us if self.head.first_reading_us is None else self.head.first_reading_us

    def is_reset_at(self, reading_us: int) -> bool:
        """Whether the value after the last reading at an instant is one after a reset within the segment."""
        if self.head.piece == self.tail.piece:
            return False
        if self.head.reset_us is not None:
            return reading_us >= self.head.reset_us
        # Of summaries from before this was kept: a reset at the instant of the last reading before it is not seen.
        return self.head.last_reading_us is None or reading_us > self.head.last_reading_us

    def covers(self, at_us: int) -> bool:
        """Whether nothing of the segment comes after this instant, so that its total is the value there."""
        return self.tail.last_reading_us is not None and self.tail.last_reading_us <= at_us


@dataclass(frozen=True, slots=True)
class WantedValue:
    """An instant at which a channel is asked for, and the segment whose value holds there."""

    channel: str
    at_us: int
    segment: ChannelSegment


def by_channel(pieces: Iterable[MetricPiece]) -> dict[str, list[ChannelSegment]]:
    """The segments of each channel, in order of time."""
    grouped: dict[tuple[str, int], list[MetricPiece]] = defaultdict(list)
    for piece in pieces:
        grouped[piece.channel, piece.segment_us].append(piece)
    found: dict[str, list[ChannelSegment]] = defaultdict(list)
    for channel, segment_us in sorted(grouped):
        ordered = sorted(grouped[channel, segment_us], key=lambda piece: piece.piece)
        found[channel].append(ChannelSegment(ordered[0], ordered[-1]))
    return found


def segment_at(segments: list[ChannelSegment], at_us: int) -> ChannelSegment | None:
    """The last segment in which the channel was read at or before an instant."""
    place = bisect_right(segments, at_us, key=lambda segment: segment.first_us)
    return segments[place - 1] if place else None


def end_value(metric: Metric, segment: ChannelSegment) -> Number | None:
    """The value after the last reading of a segment; None where there is none, or where it is not known yet."""
    base, total = segment.tail.base, segment.tail.total
    known = [number for number in (base, total) if number is not None]
    match metric.kind:
        case MetricKind.MIN:
            return min(known, default=None)
        case MetricKind.MAX:
            return max(known, default=None)
        case MetricKind.SUM | MetricKind.COUNT | MetricKind.INTEGRAL | MetricKind.INCREASE:
            pass
        case _:
            assert_never(metric.kind)
    # A commit whose shift was too large to be done at once leaves new summaries without a base for a while.
    return None if base is None or total is None else base + total
