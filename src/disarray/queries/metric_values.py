"""The value of a metric at an instant, and at many: from summaries where they tell, else from readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control import values
from disarray.control.snapshots import snapshot
from disarray.errors import InvalidRequestError, UnknownNameError
from disarray.model.description.spec_table import near_miss
from disarray.model.segments import LAST_US, microseconds_of
from disarray.queries.bases import WantedValue, by_channel, end_value, segment_at
from disarray.store.definitions import assert_made_under

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection
    from disarray.control.values import Number
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric
    from disarray.store.contract import SegmentContent
    from disarray.store.lake import Lake

MOST_INSTANTS = 1_000_000
MOST_VALUES = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A metric at an instant: what it was after the last reading at or before it.

    `number` is None where the metric has none (an extreme without points), or where it is not known before the subject
    is reconciled; then it is not final. Where `is_dropped`, the readings around the instant are no longer kept: what it
    was is not known, and `reading_us` is the next instant at which it is.
    """

    channel: str
    at_us: int
    number: Number | None
    reading_us: int
    is_final: bool
    is_dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """An answer: values by channel and time, all of one moment, and from when on numbers of the subject are stale."""

    values: tuple[Value, ...]
    stale_from_us: int | None
    segments_read: int = 0


def value_at(
    connection: Connection,
    lake: Lake,
    *,
    dataset: Dataset,
    subject_key: str,
    metric: Metric,
    channel: str | None = None,
    at_us: int | None = None,
) -> Values:
    """The value at an instant, or the newest, for one channel or for all; no file is read where summaries tell."""
    instants = [LAST_US if at_us is None else at_us]
    return _values(connection, lake, dataset, subject_key, metric=metric, channel=channel, instants=instants)


def series(
    connection: Connection,
    lake: Lake,
    *,
    dataset: Dataset,
    subject_key: str,
    metric: Metric,
    from_us: int,
    to_us: int,
    every_us: int,
    channel: str | None = None,
    most_values: int = MOST_VALUES,
) -> Values:
    """Values at regular instants, both ends included; instants before the first reading of a channel are left out."""
    count = (to_us - from_us) // every_us + 1 if every_us > 0 else 0
    most = min(MOST_INSTANTS, most_values)
    if not 0 < count <= most:
        raise InvalidRequestError(
            f"this asks for {max(count, 0):,} instants, 1 to {most:,} are answered at once. Nothing was read; "
            "let 'from' be before 'to', the span shorter, or the step longer"
        )
    instants = [from_us + number * every_us for number in range(count)]
    return _values(
        connection,
        lake,
        dataset,
        subject_key,
        metric=metric,
        channel=channel,
        instants=instants,
        most_values=most_values,
    )


def _values(
    connection: Connection,
    lake: Lake,
    dataset: Dataset,
    subject_key: str,
    *,
    metric: Metric,
    channel: str | None,
    instants: Sequence[int],
    most_values: int = MOST_VALUES,
) -> Values:
    with snapshot(connection):
        assert_made_under(connection, dataset, subject_key)
        stale_from = values.stale_from(connection, dataset.name, subject_key)
        pieces = values.load_bases(
            connection,
            dataset.name,
            subject_key,
            metric=metric.name,
            from_us=instants[0],
            to_us=instants[-1],
            channel=channel,
        )
        channels = by_channel(pieces)
        if len(channels) * len(instants) > most_values:
            raise InvalidRequestError(
                f"this asks for {len(channels):,} channels at {len(instants):,} instants, {most_values:,} values are "
                "answered at once. Nothing was read; choose a channel, a shorter span, or a longer step"
            )
        wanted = [
            WantedValue(name, at_us, segment)
            for name, segments in channels.items()
            for at_us in instants
            if (segment := segment_at(segments, at_us)) is not None
        ]
        inside = [each for each in wanted if not each.segment.covers(each.at_us)]
        contents = (
            _look_up_segments(connection, dataset, subject_key, inside)
            if inside
            else {}  # what summaries tell needs neither the lake nor Arrow
        )
        if channel is not None and not pieces:
            refuse_unknown_channel(connection, dataset, subject_key, metric, channel)
    stale_from_us = None if stale_from is None else microseconds_of(stale_from)
    sealed = {segment_us for segment_us, content in contents.items() if content.entry.is_sealed}
    kept = [each for each in inside if each.segment.head.segment_us not in sealed]
    dropped = {(each.channel, each.at_us) for each in inside} - {(each.channel, each.at_us) for each in kept}
    folded = _fold_inside(connection, lake, dataset, subject_key, metric, kept, contents) if kept else {}
    answers = []
    for each in wanted:
        number, reading_us = folded.get((each.channel, each.at_us)) or _at_end(metric, each)
        is_dropped = (each.channel, each.at_us) in dropped
        # What nobody can know any more is not final: a reader who looks at this alone must not take it for a value.
        is_final = not is_dropped and (stale_from_us is None or reading_us < stale_from_us)
        answers.append(
            Value(
                channel=each.channel,
                at_us=each.at_us,
                number=None if is_dropped else number,
                reading_us=reading_us,
                is_final=is_final,
                is_dropped=is_dropped,
            )
        )
    return Values(
        values=tuple(answers), stale_from_us=stale_from_us, segments_read=len(contents) - len(sealed)
    )


def _at_end(metric: Metric, wanted: WantedValue) -> tuple[Number | None, int]:
    assert wanted.segment.tail.last_reading_us is not None
    return end_value(metric, wanted.segment), wanted.segment.tail.last_reading_us


def _look_up_segments(
    connection: Connection, dataset: Dataset, subject_key: str, inside: Sequence[WantedValue]
) -> dict[int, SegmentContent]:
    from disarray.store.segments import look_up_segments

    wanted = {each.segment.head.segment_us for each in inside}
    return look_up_segments(connection, dataset, subject_key, segments=wanted)


def _fold_inside(
    connection: Connection,
    lake: Lake,
    dataset: Dataset,
    subject_key: str,
    metric: Metric,
    inside: Sequence[WantedValue],
    contents: dict[int, SegmentContent],
) -> dict[tuple[str, int], tuple[Number | None, int]]:
    from disarray.queries.segment_values import fold_inside

    return fold_inside(
        connection, lake, dataset, subject_key, metric=metric, inside=inside, contents=contents
    )


def refuse_unknown_channel(
    connection: Connection, dataset: Dataset, subject_key: str, metric: Metric, channel: str
) -> None:
    """Raise for a channel that has no readings: an empty answer would hide a misspelt name."""
    newest = values.load_bases(
        connection, dataset.name, subject_key, metric=metric.name, from_us=LAST_US, to_us=LAST_US
    )
    known = {piece.channel for piece in newest}
    if channel not in known:
        named = near_miss(channel, known - {""})
        raise UnknownNameError(f"'{subject_key}' has no channel '{channel}'; {named}")
