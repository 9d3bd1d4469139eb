"""Restated spans in words: the same for what a plan would change and for what the ledger holds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from disarray.cli.support.rendering import counted, shown_instant, shown_number, signed
from disarray.model.segments import microseconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from disarray.control.previews import RestatedSpan
    from disarray.control.values import Number
    from disarray.queries.restatements import Restatement

SHOWN_SPANS = 4


@dataclass(frozen=True, slots=True)
class Span:
    """Published values of one series that change or changed, from one reading to another."""

    from_us: int
    to_us: int | None  # None: an entry of the ledger from before there were spans
    old: Number | None
    new: Number | None
    delta: Number | None
    least: Number | None
    greatest: Number | None


def planned_spans(spans: Iterable[RestatedSpan]) -> Iterator[tuple[str, list[Span]]]:
    """What a plan would change, by metric and channel."""
    for (metric, channel), own in groupby(spans, key=lambda span: (span.metric, span.channel)):
        yield (
            f"{channel} {metric}" if channel else metric,
            [
                Span(
                    each.from_us,
                    each.to_us,
                    each.old_last,
                    each.new_last,
                    each.delta,
                    each.least,
                    each.greatest,
                )
                for each in own
            ],
        )


def ledger_spans(noted: Iterable[Restatement]) -> Iterator[tuple[Restatement, list[Span]]]:
    """Entries of the ledger, those of one series and commit together, with one of them for what they share."""
    together: dict[tuple[object, ...], list[Restatement]] = {}
    for each in noted:
        key = each.restated_at, each.dataset, each.subject_key, each.metric, each.channel
        together.setdefault(key, []).append(each)
    for own in together.values():
        own.sort(key=lambda each: each.changed_from)
        yield own[0], [ledger_span(each) for each in own]


def ledger_span(noted: Restatement) -> Span:
    """An entry of the ledger."""
    return Span(
        microseconds_of(noted.changed_from),
        None if noted.changed_to is None else microseconds_of(noted.changed_to),
        noted.old,
        noted.new,
        noted.delta,
        noted.least,
        noted.greatest,
    )


def describe_spans(spans: Sequence[Span], *, verb: str, most: int = SHOWN_SPANS) -> str:
    """What became, or would become, of the values of one series: the span that reaches furthest, and the next ones."""
    *others, last = spans
    text = _span(last, verb)
    if others and last.delta is not None and _is_ramp(others[-1], last):
        ramp = others.pop()
        way = "rising" if last.delta > 0 else "falling"
        text += f"; {way} to it from {_short(ramp.from_us)} on"
    rest = [_span(span, verb) for span in reversed(others)]
    more = len(rest) - most
    return "; ".join([text, *rest[:most], *([f"and {counted(more, 'more span')}"] if more > 0 else [])])


def _is_ramp(span: Span, last: Span) -> bool:
    """Whether the change grows step by step to that of the last span."""
    if span.delta is not None or span.least is None or span.greatest is None or last.delta is None:
        return False
    return span.least * last.delta >= 0 and span.greatest * last.delta >= 0


def _span(span: Span, verb: str) -> str:
    became = f"({shown_number(span.old)} {verb} {shown_number(span.new)})"
    if span.to_us is None:
        return f"{signed((span.new or 0) - (span.old or 0))} from {_short(span.from_us)} on {became}"
    between = f"from {_short(span.from_us)} to {_short(span.to_us)}"
    if span.from_us == span.to_us:
        between = f"at {_short(span.from_us)}"
    if span.new is None:
        return f"no value {between} ({shown_number(span.old)} before)"
    if span.delta is not None:
        return f"{signed(span.delta)} {between} {became}"
    if span.least is None or span.greatest is None:
        return f"other values {between}, at its end {became}"
    return f"{signed(span.least)} to {signed(span.greatest)} {between} {became}"


def _short(us: int) -> str:
    """Without seconds where there are none; the zone of the viewer stays at the end."""
    text = shown_instant(us)
    return f"{text[:16]}{text[19:]}" if us % 60_000_000 == 0 else text
