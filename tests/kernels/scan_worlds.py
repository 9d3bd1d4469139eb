"""Fragments to merge and fold: small ones as a test needs them, and random worlds, each from one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import time
from typing import TYPE_CHECKING

import pyarrow as pa

from disarray.kernels.scanning.segment_rows import FragmentInput
from disarray.model.description.conflict_rule import BY_PATH, Conflict, ConflictRule
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION, ColumnType
from disarray.model.description.metrics import IntegralMethod, Metric, MetricKind
from disarray.model.description.read_spec import Key, KeyKind
from disarray.model.description.rollups import Aggregate, AggregateFunction, Bucket, BucketKind, Rollup, Shift
from disarray.model.description.scan_spec import ScanSpec
from disarray.model.duration import DAY, HOUR, MINUTE, SECOND
from disarray.model.expression.type_check import type_of
from disarray.model.segments import Segment, segment_start
from tests.kernels.expression_reference import COLUMNS, NUMBERS, Value, random_expression, table_of
from tests.kernels.scan_reference import Row, null_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The day on which Berlin's clocks go back.
START_US = 1_792_886_400_000_000
URIS = ["file:/a.csv", "file:/b.csv", "file:/B.csv", "file:/ä.csv", "file:/a.csv.1"]
BREAKERS = ["b", "i", "s", "t"]


SPEC = ScanSpec(
    subject="TOOL07",
    columns=COLUMNS,
    has_channel=False,
    order_by=(),
    key=Key(KeyKind.CONTENT),
    metrics=(),
    rollups=(),
)
NOTHING: dict[str, Value] = dict.fromkeys(COLUMNS)


def fragment(uri: str, *rows: tuple[int, Value], priority: int = 0) -> FragmentInput:
    """A fragment of (event time, value of column i), ten bytes apart."""
    own = [
        Row(at, uri, number * 10, priority, "", NOTHING | {"i": value})
        for number, (at, value) in enumerate(rows)
    ]
    return FragmentInput(readings=readings_table(own, SPEC), uri=uri, rows=len(own), priority=priority)


@dataclass(frozen=True)
class World:
    """Valid rows, and the fragments that hold them beside rows that a cut has made invalid."""

    spec: ScanSpec
    rows: list[Row]
    fragments: list[FragmentInput]


def random_world(seed: int, *, span_us: int = DAY, segment_us: int = DAY, size: int = 40) -> World:
    """Files that overlap, repeat themselves and each other, disagree, and are out of order."""
    source = random.Random(seed)
    spec = random_spec(source)
    grain_us = source.choice([1, 10 * MINUTE, 6 * HOUR])  # coarse times tie
    times = sorted(
        START_US + source.randrange(span_us // grain_us) * grain_us for _ in range(source.randint(1, size))
    )
    pool = [(at, _values(source)) for at in times]
    rows: list[Row] = []
    fragments: list[FragmentInput] = []
    for uri in source.sample(URIS, source.randint(1, len(URIS))):
        own, pieces = random_file(source, uri, pool, spec, segment_us=segment_us)
        rows += own
        fragments += pieces
    return World(spec, rows, fragments)


def _values(source: random.Random) -> dict[str, Value]:
    def maybe(value: Value, share: float = 0.15) -> Value:
        return None if source.random() < share else value

    return {
        "i": maybe(source.choice([0, 1, 2, 3, -5])),
        "j": maybe(source.choice([source.randint(-1000, 1000), 10**12, 7])),
        "x": maybe(source.choice([0.1, 0.2, 0.3, -1e-3, source.uniform(-100, 100), 1e15, 0.0])),
        "y": maybe(source.uniform(0, 1)),
        "b": maybe(source.random() < 0.6),
        "s": maybe(source.choice(["P1", "P2", "ä"]), 0.05),
        "t": maybe(source.choice([0, 10**15])),
    }


def random_file(
    source: random.Random,
    uri: str,
    pool: Sequence[tuple[int, dict[str, Value]]],
    spec: ScanSpec,
    *,
    segment_us: int,
) -> tuple[list[Row], list[FragmentInput]]:
    """The valid rows of one file, and its fragments."""
    lines = [line for line in pool if source.random() < 0.6] or [pool[0]]
    lines += source.choices(lines, k=source.randint(0, 4))
    if source.random() < 0.5:
        lines = [(at, values | _values(source) if source.random() < 0.2 else values) for at, values in lines]
    if source.random() < 0.6:
        source.shuffle(lines)
    priority = source.choice([0, 0, 0, 1, -3])
    position = 0
    rows = []
    for at, values in lines:
        position += source.randint(10, 60)
        channel = str(values["s"] or "") if spec.has_channel else ""
        rows.append(Row(at, uri, position, priority, channel, values))
    seam = source.choice(rows).position
    parts = [rows] if source.random() < 0.5 else [[r for r in rows if r.position < seam], rows]
    fragments = []
    for number, part in enumerate(parts):
        # The first part was read before the seam moved, with rows after it that no longer hold.
        is_cut = len(parts) == 2 and number == 0
        stale = [replace(row, position=row.position + 7, values=_values(source)) for row in rows]
        stale = [replace(row, channel=_channel(row, spec)) for row in stale if row.position >= seam]
        fragments += _fragments(
            part + stale if is_cut else part,
            spec,
            segment_us=segment_us,
            cut=seam if is_cut else None,
            from_position=seam if len(parts) == 2 and number == 1 else None,
        )
    return rows, fragments


def _channel(row: Row, spec: ScanSpec) -> str:
    return str(row.values["s"] or "") if spec.has_channel else ""


def _fragments(
    rows: Iterable[Row], spec: ScanSpec, *, segment_us: int, cut: int | None, from_position: int | None
) -> list[FragmentInput]:
    by_segment: dict[int, list[Row]] = {}
    for row in rows:
        by_segment.setdefault(row.event_us // segment_us, []).append(row)
    fragments = []
    for own in by_segment.values():
        own.sort(key=lambda r: (r.event_us, [null_first(r.values[n]) for n in spec.order_by], r.position))
        valid = [
            row
            for row in own
            if (cut is None or row.position < cut)
            and (from_position is None or row.position >= from_position)
        ]
        fragments.append(
            FragmentInput(
                readings=readings_table(own, spec),
                uri=own[0].uri,
                rows=len(valid),
                priority=own[0].priority,
                from_position=from_position,
                cut=cut,
            )
        )
    return fragments


def readings_table(rows: Sequence[Row], spec: ScanSpec) -> pa.Table:
    """Readings as fragments hold them."""
    table = table_of([row.values for row in rows])
    table = table.append_column(EVENT_US, pa.array([row.event_us for row in rows], pa.int64()))
    table = table.append_column(POSITION, pa.array([row.position for row in rows], pa.int64()))
    if spec.has_channel:
        table = table.append_column(CHANNEL, pa.array([row.channel for row in rows], pa.string()))
    return table


def random_spec(source: random.Random) -> ScanSpec:
    """Any key, order, metrics of every kind and rollups of every bucket."""
    key = source.choice(
        [
            Key(KeyKind.CONTENT),
            Key(KeyKind.CONTENT),
            Key(KeyKind.NONE),
            Key(KeyKind.COLUMNS),
            Key(KeyKind.COLUMNS, ("i",)),
            Key(KeyKind.COLUMNS, ("s", "x")),
        ]
    )
    return ScanSpec(
        subject="TOOL07",
        columns=COLUMNS,
        has_channel=source.random() < 0.5,
        order_by=tuple(source.sample(["j", "x", "s", "b", "t"], source.choice([0, 0, 1, 2]))),
        key=key,
        conflict=random_conflict(source, key),
        metrics=tuple(random_metric(source, f"m{number}") for number in range(4)),
        rollups=tuple(random_rollup(source, f"r{number}") for number in range(2)),
    )


def random_conflict(source: random.Random, key: Key) -> Conflict:
    """Any rule that can choose under this key."""
    others = [name for name in ["i", "j", "x", "s", "b", "t"] if name not in key.columns]
    if key.kind is not KeyKind.COLUMNS or source.random() < 0.5:
        return BY_PATH
    return Conflict(ConflictRule.NEWEST, source.choice(others))


def random_metric(source: random.Random, name: str) -> Metric:
    kind = source.choice(list(MetricKind))
    value = random_expression(source, source.choice(NUMBERS), source.choice([0, 0, 1, 2]))
    if kind is MetricKind.COUNT:
        value = random_expression(source, source.choice(list(ColumnType)), 1)
    found = type_of(value, COLUMNS)
    type_ = {MetricKind.COUNT: ColumnType.INT64, MetricKind.INTEGRAL: ColumnType.FLOAT64}.get(kind, found)
    is_integral = kind is MetricKind.INTEGRAL
    return Metric(
        name=name,
        kind=kind,
        input=None if kind is MetricKind.COUNT and source.random() < 0.5 else value,
        where=random_expression(source, ColumnType.BOOL, 1) if source.random() < 0.5 else None,
        method=source.choice(list(IntegralMethod)) if is_integral else IntegralMethod.TRAPEZOID,
        max_gap_us=source.choice([SECOND, 10 * MINUTE, 6 * HOUR, DAY, 10 * DAY]) if is_integral else None,
        break_on=tuple(source.sample(BREAKERS, source.randint(0, 2))) if is_integral else (),
        reset_on=tuple(source.sample(BREAKERS, source.choice([0, 0, 1, 2]))),
        type=type_,
    )


def random_rollup(source: random.Random, name: str) -> Rollup:
    zone = source.choice(["UTC", "Europe/Berlin"])
    bucket = source.choice(
        [
            Bucket(kind=BucketKind.CLOCK, zone=zone, length_us=source.choice([15 * MINUTE, HOUR, 8 * HOUR])),
            Bucket(kind=BucketKind.DAY, zone=zone),
            Bucket(
                kind=BucketKind.SHIFTS, zone=zone, shifts=(Shift("day", time(6)), Shift("night", time(18)))
            ),
        ]
    )
    aggregates = tuple(
        Aggregate(
            name=function.value,
            function=function,
            input=None
            if function is AggregateFunction.COUNT
            else random_expression(source, source.choice(NUMBERS), source.choice([0, 1])),
            where=random_expression(source, ColumnType.BOOL, 1) if source.random() < 0.4 else None,
        )
        for function in AggregateFunction
    )
    return Rollup(name=name, bucket=bucket, aggregates=aggregates)


def segments_over(first_us: int, last_us: int, *, length_us: int) -> list[Segment]:
    """All segments that a span touches, both ends included, in order."""
    starts = range(segment_start(first_us, length_us), last_us + 1, length_us)
    return [Segment(start_us, start_us + length_us) for start_us in starts]
