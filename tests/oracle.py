"""Everything that follows from accepted readings, one loop after the other: slow, obvious, no code of the kernels.

Only the hash over a segment's readings is the product's own: what goes into it is put in order here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from disarray.kernels.scanning.digests import digest_readings
from disarray.model.description.format import CHANNEL, EVENT_US, ColumnType
from disarray.model.description.metrics import MetricKind
from disarray.model.description.read_spec import KeyKind
from disarray.model.description.scan_spec import scan_spec_of
from tests.blocks import SEGMENTS_PER_BLOCK
from tests.kernels.rollup_reference import bucket_at, part
from tests.kernels.scan_reference import Point, Row, join, junction, merge, summaries, zero_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric

Table = dict[tuple[object, ...], dict[str, object]]

ARROW = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT64: pa.int64(),
    ColumnType.FLOAT64: pa.float64(),
}
SEGMENT_KEY = ("dataset", "subject_key", "segment_us")
METRIC_KEY = ("dataset", "subject_key", "metric", "channel", "segment_us", "piece")
ROLLUP_KEY = ("dataset", "subject_key", "rollup", "aggregate", "channel", "bucket_us", "segment_us")


@dataclass(frozen=True)
class Said:
    """A reading that counts: which file said it (a generation of one counts as a file), and that file's content."""

    row: Row
    content: str


def derive(
    dataset: Dataset, subject: str, said: Sequence[Said], *, window: tuple[int, int]
) -> dict[str, Table]:
    """The rows of `segment`, `segment_metric` and `rollup` that these readings make, by their keys.

    `window` is a span around all of them: bucket edges are found by walking through it once.
    """
    spec = scan_spec_of(dataset, subject)
    by_segment: defaultdict[int, list[Said]] = defaultdict(list)
    for each in said:
        by_segment[each.row.event_us // dataset.segment_length_us * dataset.segment_length_us].append(each)
    keys = {"dataset": dataset.name, "subject_key": subject}
    winners: dict[int, list[Row]] = {}
    segments = []
    for segment_us in sorted(by_segment):
        rows = [each.row for each in by_segment[segment_us]]
        counted = without_aliases(by_segment[segment_us]) if spec.key.kind is KeyKind.NONE else rows
        outcome = merge(counted, spec)
        winners[segment_us] = outcome.winners
        segments.append(
            {
                **keys,
                "segment_us": segment_us,
                "segment_end_us": segment_us + dataset.segment_length_us,
                "readings": len(outcome.winners),
                "duplicates": len(rows) - len(outcome.winners),
                "first_us": outcome.winners[0].event_us,
                "last_us": outcome.winners[-1].event_us,
                "digest": digest(dataset, outcome.winners),
            }
        )
    known = {attribute.name: attribute.value for attribute in spec.attributes}
    for rows in winners.values():
        for row in rows:
            row.values.update(known)
    metrics = [
        {**keys, "metric": metric.name, "channel": channel, **row}
        for metric in dataset.metrics
        for channel in sorted({row.channel for rows in winners.values() for row in rows})
        for row in history(metric, channel, winners, block_us=SEGMENTS_PER_BLOCK * dataset.segment_length_us)
    ]
    rollups = [{**keys, **row} for row in rollup_parts(dataset, winners, window)]
    return {
        "segments": by_key(segments, SEGMENT_KEY),
        "metrics": by_key(metrics, METRIC_KEY),
        "rollups": by_key(rollups, ROLLUP_KEY),
    }


def by_key(rows: Sequence[Mapping[str, object]], key: tuple[str, ...]) -> Table:
    return {tuple(row[name] for name in key): dict(row) for row in rows}


def without_aliases(said: Sequence[Said]) -> list[Row]:
    """Files with the same bytes are one file: where nothing is a key, the greatest name says it all."""
    speaker: dict[tuple[str, int], Row] = {}
    for each in said:
        place = each.content, each.row.position
        if place not in speaker or speaker[place].uri.encode() < each.row.uri.encode():
            speaker[place] = each.row
    return list(speaker.values())


def digest(dataset: Dataset, rows: Sequence[Row]) -> str:
    columns: dict[str, Any] = {EVENT_US: pa.array([row.event_us for row in rows], pa.int64())}
    if dataset.channel is not None:
        columns[CHANNEL] = pa.array([row.channel for row in rows], pa.string())
    for column in dataset.columns:
        columns[column.name] = pa.array([row.values[column.name] for row in rows], ARROW[column.type])
    return digest_readings(pa.table(columns))


def history(
    metric: Metric, channel: str, winners: Mapping[int, Sequence[Row]], *, block_us: int
) -> Iterator[dict[str, object]]:
    """The summaries of one series with their bases: a walk through each block, and one from block to block."""
    kind = "int" if metric.type is ColumnType.INT64 else "float"
    zero = zero_of(metric)
    former: Walk | None = None
    for pieces in blocks(metric, channel, winners, block_us):
        within = list(walk(metric, kind, [piece for _, piece in pieces]))
        opening = next((each for each in within if each.is_first and each.piece["points"]), None)
        if former is None or within[0].piece["first_reset"] != former.piece["last_reset"]:
            base, before, prior = zero, zero, None
        else:
            base, before, prior = carried_over(
                metric, kind, former, None if opening is None else opening.piece
            )
        for (segment_us, piece), own in zip(pieces, within, strict=True):
            last = own
            if own.is_first:
                is_reached = own.prior is not None or piece["points"]
                last = Walk(
                    piece=piece,
                    is_first=True,
                    base=join(metric, base if is_reached else before, own.base),
                    before=join(metric, base if own.prior else before, own.before),
                    prior=own.prior or prior,
                )
            former = last
            yield {
                "segment_us": segment_us,
                **piece,
                **typed("base", last.base, kind),
                **typed("before", last.before, kind),
                **typed("prior", None if last.prior is None else last.prior.x, kind),
                "prior_us": None if last.prior is None else last.prior.us,
                "prior_break": None if last.prior is None else last.prior.at_break,
            }


@dataclass(frozen=True)
class Walk:
    """A piece, and what a walk to it carried along; `is_first` until the first reset."""

    piece: Mapping[str, Any]
    is_first: bool
    base: Any
    before: Any
    prior: Point | None


def blocks(
    metric: Metric, channel: str, winners: Mapping[int, Sequence[Row]], block_us: int
) -> list[list[tuple[int, dict[str, object]]]]:
    found: defaultdict[int, list[tuple[int, dict[str, object]]]] = defaultdict(list)
    for segment_us, rows in winners.items():
        own = [row for row in rows if row.channel == channel]
        for piece in summaries(metric, own) if own else ():
            found[segment_us // block_us].append((segment_us, piece))
    return list(found.values())


def walk(metric: Metric, kind: str, pieces: Sequence[Mapping[str, Any]]) -> Iterator[Walk]:
    """As if the history began with these pieces."""
    zero = zero_of(metric)
    former: Walk | None = None
    for piece in pieces:
        if former is None or piece["piece"] == 1 or piece["first_reset"] != former.piece["last_reset"]:
            former = Walk(piece, former is None, zero, zero, None)
        else:
            former = Walk(piece, former.is_first, *carried_over(metric, kind, former, piece))
        yield former


def carried_over(
    metric: Metric, kind: str, former: Walk, opening: Mapping[str, Any] | None
) -> tuple[Any, Any, Point | None]:
    """Base, value before it and last point, behind a piece; `opening` has the point that is continued with."""
    total = former.piece[f"total_{kind}"]
    point = end(former.piece, kind, "last") if former.piece["points"] else former.prior
    step: Any = zero_of(metric)
    if metric.kind not in (MetricKind.MIN, MetricKind.MAX) and opening and opening["points"] and point:
        step = junction(metric, point, end(opening, kind, "first"))
    base = join(metric, former.base, join(metric, total, step))
    return base, join(metric, former.base, total), point


def end(piece: Mapping[str, Any], kind: str, which: str) -> Point:
    return Point(piece[f"{which}_us"], piece[f"{which}_{kind}"], piece[f"{which}_break"])


def typed(name: str, value: object, kind: str) -> dict[str, object]:
    other = "float" if kind == "int" else "int"
    return {f"{name}_{kind}": value, f"{name}_{other}": None}


def rollup_parts(
    dataset: Dataset, winners: Mapping[int, Sequence[Row]], window: tuple[int, int]
) -> Iterator[dict[str, object]]:
    for rollup in dataset.rollups:
        for segment_us, rows in winners.items():
            grouped: defaultdict[tuple[str, int, int, str], list[Row]] = defaultdict(list)
            for row in rows:
                bucket = bucket_at(rollup.bucket, row.event_us, start_us=window[0], end_us=window[1])
                grouped[row.channel, *bucket].append(row)
            for (channel, start, stop, label), own in grouped.items():
                for aggregate in rollup.aggregates:
                    yield {
                        "rollup": rollup.name,
                        "aggregate": aggregate.name,
                        "channel": channel,
                        "bucket_us": start,
                        "segment_us": segment_us,
                        "bucket_end_us": stop,
                        "label": label,
                        **part(aggregate, own, dataset.column_types),
                    }
