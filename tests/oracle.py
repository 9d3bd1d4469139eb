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
        for row in history(metric, channel, winners)
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
    metric: Metric, channel: str, winners: Mapping[int, Sequence[Row]]
) -> Iterator[dict[str, object]]:
    """The summaries of one series with their bases, in one walk through all of its pieces."""
    kind = "int" if metric.type is ColumnType.INT64 else "float"
    zero = zero_of(metric)
    base, total, point, key = zero, zero, None, None
    begun = False
    for segment_us, rows in winners.items():
        own = [row for row in rows if row.channel == channel]
        for piece in summaries(metric, own) if own else ():
            prior: Point | None = None
            if not begun or piece["piece"] == 1 or piece["first_reset"] != key:
                base = before = zero
                point = None
            else:
                prior = point
                before = join(metric, base, total)
                step: Any = zero
                if metric.kind not in (MetricKind.MIN, MetricKind.MAX) and piece["points"] and prior:
                    step = junction(metric, prior, end(piece, kind, "first"))
                base = join(metric, base, join(metric, total, step))
            begun, key = True, piece["last_reset"]
            total = piece[f"total_{kind}"]  # type: ignore[assignment]
            if piece["points"]:
                point = end(piece, kind, "last")
            yield {
                "segment_us": segment_us,
                **piece,
                **typed("base", base, kind),
                **typed("before", before, kind),
                **typed("prior", None if prior is None else prior.x, kind),
                "prior_us": None if prior is None else prior.us,
                "prior_break": None if prior is None else prior.at_break,
            }


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
