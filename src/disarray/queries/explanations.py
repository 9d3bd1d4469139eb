"""Where the value of a metric comes from: what the segment adds to what was before, the files, the restatements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control import explanations, values
from disarray.control.snapshots import snapshot
from disarray.errors import InvalidRequestError
from disarray.model.segments import LAST_US, datetime_of
from disarray.queries.bases import by_channel, segment_at
from disarray.queries.metric_values import value_at
from disarray.queries.restatements import restatement_document
from disarray.store.definitions import assert_made_under

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata
    from disarray.control.values import MetricPiece, Number, Restatement
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric
    from disarray.queries import restatements
    from disarray.queries.bases import ChannelSegment
    from disarray.queries.metric_values import Value
    from disarray.store.lake import Lake

MOST_CHANNELS = 20
ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One value and what made it.

    `base` is what the fold within the segment is added to, None where the metric was reset in the segment before the
    instant; `local` is that fold. Of an extreme they are the one before the segment and the one within it.
    `segment` is the document of ``control.explanations.explain_segment``; `restatements` changed this value, newest
    first.
    """

    value: Value
    base: Number | None
    local: Number | None
    segment: Metadata
    restatements: Sequence[restatements.Restatement]


@dataclass(frozen=True, slots=True)
class _Origin:
    piece: ChannelSegment
    segment: Metadata
    restatements: Sequence[Restatement]


def explain(
    connection: Connection,
    lake: Lake,
    *,
    dataset: Dataset,
    subject_key: str,
    metric: Metric,
    channel: str | None = None,
    at_us: int | None = None,
) -> list[Explanation]:
    """The value at an instant, or the newest, for each channel, with its origin."""
    origins = _origins(connection, dataset, subject_key, metric, channel, at_us)
    for _ in range(ATTEMPTS):
        answer = value_at(
            connection,
            lake,
            dataset=dataset,
            subject_key=subject_key,
            metric=metric,
            channel=channel,
            at_us=at_us,
        )
        seen = origins
        # The readings are looked up at a moment of their own: whatever was committed between, it is told as one.
        origins = _origins(connection, dataset, subject_key, metric, channel, at_us)
        if origins == seen:
            break
    return [
        _explanation(metric, value, origins[value.channel])
        for value in answer.values
        if value.channel in origins
    ]


def _origins(
    connection: Connection,
    dataset: Dataset,
    subject_key: str,
    metric: Metric,
    channel: str | None,
    at_us: int | None,
) -> dict[str, _Origin]:
    instant = LAST_US if at_us is None else at_us
    with snapshot(connection):
        assert_made_under(connection, dataset, subject_key)
        pieces = values.load_bases(
            connection,
            dataset.name,
            subject_key,
            metric=metric.name,
            from_us=instant,
            to_us=instant,
            channel=channel,
        )
        found = {
            name: segment
            for name, segments in by_channel(pieces).items()
            if (segment := segment_at(segments, instant)) is not None
        }
        if len(found) > MOST_CHANNELS:
            raise InvalidRequestError(
                f"'{subject_key}' has {len(found)} channels of '{metric.name}', {MOST_CHANNELS} are explained at "
                "once. Nothing was read; choose one with --channel"
            )
        documents = {
            segment_us: explanations.explain_segment(
                connection, dataset.name, subject_key, segment_us=segment_us
            )
            for segment_us in {segment.head.segment_us for segment in found.values()}
        }
        return {
            name: _Origin(
                segment,
                documents[segment.head.segment_us] or {},
                explanations.list_metric_restatements(
                    connection,
                    dataset.name,
                    subject_key,
                    metric=metric.name,
                    channel=name,
                    # The far end of time is no instant that the database could hold.
                    at_us=min(instant, segment.tail.last_reading_us or instant),
                    # At the earliest: which reading it is, the value tells.
                    reading_us=segment.tail.last_reading_us if segment.covers(instant) else segment.first_us,
                ),
            )
            for name, segment in found.items()
        }


def _explanation(metric: Metric, value: Value, origin: _Origin) -> Explanation:
    head, tail = origin.piece.head, origin.piece.tail
    was_reset = origin.piece.is_reset_at(value.reading_us)
    base, local = _parts(metric, value, head=head, tail=tail, was_reset=was_reset)
    reading_at = datetime_of(value.reading_us)
    own = [
        restatement_document(noted)
        for noted in origin.restatements
        if noted.changed_to is None or noted.changed_to >= reading_at
    ]
    return Explanation(value=value, base=base, local=local, segment=origin.segment, restatements=own)


def _parts(
    metric: Metric, value: Value, *, head: MetricPiece, tail: MetricPiece, was_reset: bool
) -> tuple[Number | None, Number | None]:
    if metric.kind.is_extreme:
        return (None, tail.total) if was_reset else (head.before, head.total)
    if value.number is None:
        return None, None
    if not was_reset and value.number == head.before:
        return head.before, 0
    base = None if was_reset else head.base
    # A difference of floats would not give the sum back; where the segment ends, its total is known.
    is_end = value.reading_us == tail.last_reading_us
    return base, tail.total if is_end else value.number - (base or 0)
