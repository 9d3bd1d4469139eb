from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disarray.errors import ExpressionOverflowError, FoldOverflowError
from disarray.kernels.scanning.segment_scan import scan_segment
from disarray.model.description.format import ColumnType
from disarray.model.description.rollups import Aggregate, AggregateFunction, Bucket, BucketKind, Rollup
from disarray.model.duration import DAY, HOUR
from disarray.model.expression.parser import parse_expression
from disarray.model.rollup_parts import RollupPart, bucket_value
from disarray.model.segments import Segment
from tests.kernels.expression_reference import COLUMNS, NUMBERS, bits
from tests.kernels.rollup_reference import bucket_at, left_sum, part, plain_value, points_of
from tests.kernels.scan_reference import merge
from tests.kernels.scan_worlds import SPEC, START_US, fragment, random_world, segments_over

if TYPE_CHECKING:
    from tests.kernels.scan_reference import Row
    from tests.kernels.scan_worlds import World

FUNCTIONS = tuple(AggregateFunction)


def numeric_rollup(column: str, bucket: Bucket) -> Rollup:
    """Every function over one column."""
    value = parse_expression(column)
    return Rollup(
        name="r",
        bucket=bucket,
        aggregates=tuple(
            Aggregate(
                name=each.value, function=each, input=value, where=parse_expression("coalesce(b, true)")
            )
            for each in FUNCTIONS
        ),
    )


def parts_of(
    world: World, rollup: Rollup, segment_us: int
) -> dict[tuple[str, int, str], list[dict[str, Any]]]:
    """Parts by (channel, bucket, aggregate), in the order of their segments."""
    spec = replace(world.spec, metrics=(), rollups=(rollup,))
    last_us = max(row.event_us for row in world.rows)
    found: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for segment in segments_over(START_US, last_us, length_us=segment_us):
        own = [f for f in world.fragments if segment.contains(f.readings.column("_event_us")[0].as_py())]
        for row in scan_segment(segment, own, spec).rollup_parts.to_pylist():
            found.setdefault((row["channel"], row["bucket_us"], row["aggregate"]), []).append(row)
    return found


def value_of(function: AggregateFunction, rows: list[dict[str, Any]]) -> int | float | None:
    return bucket_value(
        function,
        [
            RollupPart(
                points=row["points"],
                value=row["value_float"] if row["value_int"] is None else row["value_int"],
                pivot=row["pivot"],
                offset_sum=row["offset_sum"],
                offset_square_sum=row["offset_square_sum"],
            )
            for row in rows
        ],
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**63),
    column=st.sampled_from([name for name, kind in COLUMNS.items() if kind in NUMBERS]),
    segment_us=st.sampled_from([6 * HOUR, DAY]),
    bucket=st.sampled_from(
        [
            Bucket(kind=BucketKind.CLOCK, zone="Europe/Berlin", length_us=8 * HOUR),
            Bucket(kind=BucketKind.DAY, zone="Europe/Berlin"),
            Bucket(kind=BucketKind.MONTH, zone="America/New_York"),
        ]
    ),
)
def test_parts_of_many_segments_merge_to_the_value_of_the_whole_bucket(
    seed: int, column: str, segment_us: int, bucket: Bucket
) -> None:
    world = random_world(seed, span_us=2 * DAY, segment_us=segment_us)
    rollup = numeric_rollup(column, bucket)
    found = parts_of(world, rollup, segment_us)
    whole: dict[tuple[str, int], list[Row]] = {}
    for row in merge(world.rows, world.spec).winners:
        start, _, _ = bucket_at(bucket, row.event_us, start_us=START_US, end_us=START_US + 2 * DAY)
        whole.setdefault((row.channel, start), []).append(row)
    assert {(channel, start) for channel, start, _ in found} == set(whole)
    for (channel, start, name), rows in found.items():
        aggregate = next(each for each in rollup.aggregates if each.name == name)
        value = value_of(aggregate.function, rows)
        own = whole[channel, start]
        expected = plain_value(aggregate, own)
        if COLUMNS[column] is ColumnType.FLOAT64 and aggregate.function is AggregateFunction.SUM:
            assert bits(value) == bits(_sum_by_segment(aggregate, own, segment_us))
        if isinstance(expected, float) and value is not None:
            size = math.fsum(abs(x) for _, x in points_of(aggregate, own))
            # A deviation loses half its digits where values are far larger than they are apart.
            share = 1e-6 if aggregate.function is AggregateFunction.STDDEV else 1e-12
            assert value == pytest.approx(expected, rel=share, abs=share * size)
        else:
            assert bits(value) == bits(expected)


def _sum_by_segment(aggregate: Aggregate, rows: list[Row], segment_us: int) -> float | None:
    by_segment: dict[int, list[Row]] = {}
    for row in rows:
        by_segment.setdefault(row.event_us // segment_us, []).append(row)
    sums = [part(aggregate, own)["value_float"] for own in by_segment.values()]
    present = [each for each in sums if isinstance(each, float)]
    return float(left_sum(present)) if present else None


def test_a_condition_that_never_holds_counts_as_zero_where_there_are_readings() -> None:
    never = Aggregate(
        name="n", function=AggregateFunction.COUNT, input=None, where=parse_expression("i > 100")
    )
    rollup = Rollup(name="r", bucket=Bucket(kind=BucketKind.DAY, zone="UTC"), aggregates=(never,))
    segment = Segment(0, DAY)
    result = scan_segment(segment, [fragment("a", (1, 1))], replace(SPEC, rollups=(rollup,)))
    assert result.rollup_parts.column("points").to_pylist() == [0]


def test_a_deviation_of_values_far_from_zero_keeps_its_digits() -> None:
    parts = [
        RollupPart(points=2, pivot=1e9, offset_sum=1.0, offset_square_sum=1.0),
        RollupPart(points=2, pivot=1e9 + 2, offset_sum=1.0, offset_square_sum=1.0),
    ]
    assert bucket_value(AggregateFunction.STDDEV, parts) == pytest.approx(math.sqrt(5 / 3), rel=1e-15)


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f is not AggregateFunction.COUNT])
def test_a_bucket_without_points_has_no_value(function: AggregateFunction) -> None:
    assert bucket_value(function, [RollupPart(points=0)]) is None


def test_a_sum_that_leaves_float64_is_an_error_that_names_the_rollup() -> None:
    huge = Aggregate(
        name="total", function=AggregateFunction.SUM, input=parse_expression("1.7e308 + i * 0.0")
    )
    rollup = Rollup(name="daily", bucket=Bucket(kind=BucketKind.DAY, zone="UTC"), aggregates=(huge,))
    segment = Segment(0, DAY)
    with pytest.raises(FoldOverflowError, match="aggregate 'total' of rollup 'daily' leaves float64"):
        scan_segment(segment, [fragment("a", (1, 1), (2, 1))], replace(SPEC, rollups=(rollup,)))


def test_readings_left_out_by_where_cannot_overflow() -> None:
    square = Aggregate(
        name="n",
        function=AggregateFunction.SUM,
        input=parse_expression("i * i"),
        where=parse_expression("i < 100"),
    )
    rollup = Rollup(name="daily", bucket=Bucket(kind=BucketKind.DAY, zone="UTC"), aggregates=(square,))
    segment = Segment(0, DAY)
    spec = replace(SPEC, rollups=(rollup,))
    result = scan_segment(segment, [fragment("a", (1, 3), (2, 2**62))], spec)
    assert result.rollup_parts.column("value_int").to_pylist() == [9]
    always = replace(rollup, aggregates=(replace(square, where=None),))
    with pytest.raises(ExpressionOverflowError, match="i \\* i leaves int64 in the segment of TOOL07"):
        scan_segment(segment, [fragment("a", (1, 3), (2, 2**62))], replace(SPEC, rollups=(always,)))
