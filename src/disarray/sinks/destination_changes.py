"""Which spans of a subject a destination has to load anew, from what its commits say of themselves."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from disarray.model.description.destination import Content
from disarray.model.duration import DAY
from disarray.model.segments import FIRST_US, LAST_US, microseconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disarray.control.subject_commits import CommitNotice
    from disarray.model.description.destination import Destination

END_US = LAST_US + 1
# No bucket is longer than a month and an hour.
LONGEST_BUCKET_US = 32 * DAY


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The half-open span [from_us, to_us) of the time that rows are about."""

    from_us: int
    to_us: int


EVERYTHING = Span(FIRST_US, END_US)


@dataclass(frozen=True, slots=True)
class Changes:
    """Disjoint spans in order. Whatever rows the target has in them are to be those that there are now."""

    spans: tuple[Span, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all of the subject is loaded."""
        return self.spans == (EVERYTHING,)

    def contains(self, at_us: int) -> bool:
        """Whether rows of this time are loaded."""
        index = bisect_right(self.spans, at_us, key=lambda span: span.from_us) - 1
        return index >= 0 and at_us < self.spans[index].to_us


WHOLE = Changes((EVERYTHING,))


def changes_of(destination: Destination, notices: Sequence[CommitNotice]) -> Changes:
    """What commits changed of what a destination holds."""
    if any(notice.is_redefined for notice in notices):
        return WHOLE
    match destination.content:
        case Content.NEWEST:
            return WHOLE if notices else Changes(())
        case Content.METRIC:
            # A value holds until the next reading and sums go on: nothing ends what a commit changed.
            starts = [_start(notice) for notice in notices]
            return Changes((Span(min(starts), END_US),)) if starts else Changes(())
        case Content.ROLLUP:
            assert destination.rollup is not None
            return Changes(merged(_buckets(notices, destination.rollup.name)))
        case Content.READINGS:
            return Changes(merged(_segments(notices, destination.dataset.segment_length_us)))
        case _:
            assert_never(destination.content)


def merged(spans: Iterable[Span], *, gap_us: int = 0) -> tuple[Span, ...]:
    """The same spans in order, those that touch, or lie no further apart than a gap, as one."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.from_us <= found[-1].to_us + gap_us:
            found[-1] = Span(found[-1].from_us, max(found[-1].to_us, span.to_us))
        else:
            found.append(span)
    return tuple(found)


def without(spans: Sequence[Span], kept: Sequence[Span]) -> tuple[Span, ...]:
    """The parts of spans that lie in none of the others."""
    found = list(spans)
    for keep in merged(kept):
        rest: list[Span] = []
        for span in found:
            rest += [
                part
                for part in (
                    Span(span.from_us, min(span.to_us, keep.from_us)),
                    Span(max(span.from_us, keep.to_us), span.to_us),
                )
                if part.from_us < part.to_us
            ]
        found = rest
    return tuple(found)


def intersection(spans: Sequence[Span], others: Sequence[Span]) -> tuple[Span, ...]:
    """What lies in both; each of them disjoint."""
    return merged(
        Span(max(one.from_us, other.from_us), min(one.to_us, other.to_us))
        for one in spans
        for other in others
        if max(one.from_us, other.from_us) < min(one.to_us, other.to_us)
    )


def _start(notice: CommitNotice) -> int:
    return FIRST_US if notice.changed_from is None else microseconds_of(notice.changed_from)


def _end(notice: CommitNotice) -> int:
    return END_US if notice.changed_to is None else microseconds_of(notice.changed_to)


def _buckets(notices: Sequence[CommitNotice], rollup: str) -> Iterable[Span]:
    for notice in notices:
        if notice.changed_buckets is None:
            # The bucket in which the change begins has begun before it.
            yield Span(max(_start(notice) - LONGEST_BUCKET_US, FIRST_US), END_US)
        elif rollup in notice.changed_buckets:
            named = notice.changed_buckets[rollup]
            if named.from_us is not None:
                yield Span(named.from_us, END_US)
            yield from (Span(bucket_us, bucket_us + 1) for bucket_us in named.buckets)


def _segments(notices: Sequence[CommitNotice], length_us: int) -> Iterable[Span]:
    for notice in notices:
        if notice.changed_segments is None:
            yield Span(_start(notice), _end(notice))
        else:
            yield from (Span(start_us, start_us + length_us) for start_us in notice.changed_segments)
