from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from disarray.errors import ExpressionOverflowError, FoldOverflowError
from disarray.kernels.scanning.folds import fold_metric
from disarray.kernels.scanning.merging import merge_fragments
from disarray.kernels.scanning.running_values import Base, local_values, values_from
from disarray.kernels.scanning.segment_scan import scan_segment, series_of
from disarray.model.description.format import CHANNEL, ColumnType
from disarray.model.description.metrics import Metric, MetricKind
from disarray.model.duration import DAY, HOUR
from disarray.model.expression.parser import parse_expression
from disarray.model.segments import Segment
from tests.kernels.chain_reference import (
    bases_from_summaries,
    values_in_one_pass,
    values_reading_by_reading,
)
from tests.kernels.expression_reference import COLUMNS, IntegerOverflowError, Value, bits
from tests.kernels.scan_reference import BeyondRangeError, Number, Row, merge
from tests.kernels.scan_worlds import (
    SPEC,
    START_US,
    World,
    fragment,
    random_metric,
    random_world,
    readings_table,
    segments_over,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.kernels.scanning.segment_rows import FragmentInput
    from disarray.kernels.scanning.series import Series


@dataclass(frozen=True)
class History:
    """What the kernels say about one metric over many segments."""

    bases: dict[str, list[Base | None]]
    values: dict[str, list[list[Number | None]]]  # by channel and segment


def values_of(series: Series, metric: Metric, bases: Mapping[str, Base]) -> list[Number | None]:
    """The metric at every reading in canonical order."""
    found: list[Number | None] = values_from(
        local_values(series, fold_metric(series, metric)),
        metric,
        [bases[name] for name in series.channels],
        series.channel_by_reading,
    ).to_pylist()
    return found


def segment_lengths() -> st.SearchStrategy[int]:
    return st.sampled_from([6 * HOUR, DAY, 10 * DAY])


def history_of(world: World, metric: Metric, length_us: int) -> History:
    """Scan every segment, chain the summaries, and read the running values back."""
    spec = replace(world.spec, metrics=(metric,), rollups=())
    last_us = max(row.event_us for row in world.rows)
    segments = segments_over(START_US, last_us, length_us=length_us)
    own = [(segment, fragments_in(world, segment)) for segment in segments]
    rows = [scan_segment(segment, fragments, spec).summaries.to_pylist() for segment, fragments in own]
    channels = sorted({row["channel"] for each in rows for row in each})
    by_piece = {
        channel: [{row["piece"]: row for row in each if row["channel"] == channel} for each in rows]
        for channel in channels
    }
    bases = {channel: bases_from_summaries(metric, by_piece[channel]) for channel in channels}
    values: dict[str, list[list[Number | None]]] = {channel: [] for channel in channels}
    for number, (segment, fragments) in enumerate(own):
        merged = merge_fragments(fragments, spec)
        known = {name: base for name in channels if (base := bases[name][number]) is not None}
        found = values_of(series_of(segment, merged, spec), metric, known)
        names = merged.readings.column(CHANNEL).to_pylist() if spec.has_channel else [""] * len(found)
        for channel in channels:
            values[channel].append([v for v, name in zip(found, names, strict=True) if name == channel])
    return History(bases, values)


def fragments_in(world: World, segment: Segment) -> list[FragmentInput]:
    return [
        each for each in world.fragments if segment.contains(each.readings.column("_event_us")[0].as_py())
    ]


def rows_of(world: World, channel: str, length_us: int) -> list[list[Row]]:
    last_us = max(row.event_us for row in world.rows)
    winners = [row for row in merge(world.rows, world.spec).winners if row.channel == channel]
    return [
        [row for row in winners if segment.contains(row.event_us)]
        for segment in segments_over(START_US, last_us, length_us=length_us)
    ]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**63), length_us=segment_lengths(), kind=st.sampled_from(MetricKind))
def test_chained_segments_give_the_bits_of_a_walk_reading_by_reading(
    seed: int, length_us: int, kind: MetricKind
) -> None:
    source = random.Random(seed)
    metric = next(m for number in range(1000) if (m := random_metric(source, f"m{number}")).kind is kind)
    world = random_world(seed, span_us=3 * DAY, segment_us=length_us)
    winners = merge(world.rows, world.spec).winners
    channels = sorted({row.channel for row in winners})
    try:
        walked = {
            each: values_reading_by_reading(metric, rows_of(world, each, length_us)) for each in channels
        }
        plain = {
            each: values_in_one_pass(metric, [r for r in winners if r.channel == each]) for each in channels
        }
        history = history_of(world, metric, length_us)
    except (IntegerOverflowError, BeyondRangeError, ExpressionOverflowError, FoldOverflowError):
        event("leaves the range")
        return
    event("resets" if metric.reset_on else "does not reset")
    for channel in channels:
        assert [list(map(bits, each)) for each in history.values[channel]] == [
            list(map(bits, each)) for each in walked[channel]
        ]
        expected, size = plain[channel]
        found = [value for each in history.values[channel] for value in each]
        if metric.type is ColumnType.INT64 or kind in (MetricKind.MIN, MetricKind.MAX):
            assert found == expected
        else:
            assert found == pytest.approx(expected, rel=0, abs=1e-9 * size)


def test_readings_before_the_first_point_do_not_see_the_step_to_it() -> None:
    values = running([(10, None), (20, 5), (30, None)], {"": Base(100, 103)}, kind=MetricKind.INCREASE)
    assert values == [100, 103, 103]


@pytest.mark.parametrize(("gap_us", "expected"), [(10, [0.0, 2e-05]), (9, [0.0, 0.0])])
def test_an_integral_bridges_a_gap_of_just_the_greatest_length(gap_us: int, expected: list[float]) -> None:
    metric = Metric(name="m", kind=MetricKind.INTEGRAL, input=parse_expression("i * 1.0"), max_gap_us=gap_us)
    merged = merge_fragments([fragment("a", (10, 2), (20, 2))], SPEC)
    series = series_of(Segment(0, DAY), merged, SPEC)
    assert values_of(series, metric, {"": Base(0.0, 0.0)}) == expected


def test_nothing_of_the_base_is_left_after_a_reset() -> None:
    values = running([(10, 1), (20, 1), (30, 2), (40, 2)], {"": Base(100, 100)}, reset_on=("i",))
    assert values == [101, 102, 2, 4]


def test_a_minimum_is_null_until_its_first_point() -> None:
    values = running([(10, None), (20, 5), (30, 7)], {"": Base(None, None)}, kind=MetricKind.MIN)
    assert values == [None, 5, 5]


def running(
    rows: list[tuple[int, Value]],
    bases: Mapping[str, Base],
    *,
    kind: MetricKind = MetricKind.SUM,
    reset_on: tuple[str, ...] = (),
) -> list[Number | None]:
    metric = Metric(
        name="m", kind=kind, input=parse_expression("i"), reset_on=reset_on, type=ColumnType.INT64
    )
    merged = merge_fragments([fragment("a", *rows)], SPEC)
    segment = Segment(0, DAY)
    return values_of(series_of(segment, merged, SPEC), metric, bases)


def test_whole_numbers_that_outgrow_int64_in_a_fold_are_an_error_that_says_where() -> None:
    metric = Metric(name="m", kind=MetricKind.SUM, input=parse_expression("i"), type=ColumnType.INT64)
    spec = replace(SPEC, metrics=(metric,))
    rows = [Row(at, "a", at, 0, "", dict.fromkeys(COLUMNS) | {"i": 2**62}) for at in (1, 2)]
    own = replace(fragment("a", (1, 1), (2, 1)), readings=readings_table(rows, SPEC))
    segment = Segment(0, DAY)
    with pytest.raises(
        FoldOverflowError, match="metric 'm' leaves int64 in the segment of TOOL07 from 1970-01-01"
    ):
        scan_segment(segment, [own], spec)
