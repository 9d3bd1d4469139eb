from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from disarray.errors import ExpressionOverflowError, FoldOverflowError, FragmentMismatchError
from disarray.kernels.scanning.rollups import ROLLUP_SCHEMA
from disarray.kernels.scanning.segment_scan import ScanResult, scan_segment
from disarray.kernels.scanning.summaries import SUMMARY_SCHEMA
from disarray.model.duration import DAY
from disarray.model.segments import Segment
from tests.kernels.expression_reference import IntegerOverflowError, bits
from tests.kernels.rollup_reference import parts
from tests.kernels.scan_reference import BeyondRangeError, Row, merge, summaries
from tests.kernels.scan_worlds import START_US, World, random_world

if TYPE_CHECKING:
    import random

SEGMENT = Segment(START_US, START_US + DAY)


def by_channel(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.channel, []).append(row)
    return dict(sorted(found.items(), key=lambda item: item[0].encode()))


def expected_tables(world: World) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Summary and rollup rows as the law has them."""
    channels = by_channel(merge(world.rows, world.spec).winners)
    summary_rows = [
        {"segment_us": START_US, "channel": channel, "metric": metric.name, **row}
        for metric in world.spec.metrics
        for channel, rows in channels.items()
        for row in summaries(metric, rows)
    ]
    part_rows = [
        row
        for rollup in world.spec.rollups
        for channel, rows in channels.items()
        for row in parts(rollup, channel, rows, start_us=START_US, end_us=SEGMENT.end_us)
    ]
    return summary_rows, part_rows


def exact(rows: list[dict[str, object]], names: list[str]) -> list[list[object]]:
    return sorted(([bits(row[name]) for name in names] for row in rows), key=repr)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**63))
def test_a_scan_gives_the_bits_that_the_law_gives_row_by_row(seed: int) -> None:
    world = random_world(seed)
    try:
        summary_rows, part_rows = expected_tables(world)
    except (IntegerOverflowError, BeyondRangeError):
        event("leaves the range")
        with pytest.raises((ExpressionOverflowError, FoldOverflowError)):
            scan_segment(SEGMENT, world.fragments, world.spec)
        return
    event("folds")
    result = scan_segment(SEGMENT, world.fragments, world.spec)
    assert exact(result.summaries.to_pylist(), SUMMARY_SCHEMA.names) == exact(
        summary_rows, SUMMARY_SCHEMA.names
    )
    assert exact(result.rollup_parts.to_pylist(), ROLLUP_SCHEMA.names) == exact(
        part_rows, ROLLUP_SCHEMA.names
    )


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**63), shuffle=st.randoms(use_true_random=False))
def test_the_order_in_which_files_arrived_leaves_no_trace(seed: int, shuffle: random.Random) -> None:
    world = random_world(seed)
    try:
        once = scan_segment(SEGMENT, world.fragments, world.spec)
    except (ExpressionOverflowError, FoldOverflowError):
        return
    shuffle.shuffle(world.fragments)
    assert_same(scan_segment(SEGMENT, world.fragments, world.spec), once)


def assert_same(found: ScanResult, expected: ScanResult) -> None:
    assert found.summaries.equals(expected.summaries)
    assert found.rollup_parts.equals(expected.rollup_parts)
    assert (found.digest, found.readings, found.duplicates) == (
        expected.digest,
        expected.readings,
        expected.duplicates,
    )


def test_a_segment_without_readings_leaves_no_rows() -> None:
    result = scan_segment(SEGMENT, [], random_world(1).spec)
    assert (result.readings, result.summaries.num_rows, result.rollup_parts.num_rows) == (0, 0, 0)


def test_readings_outside_the_segment_are_an_error() -> None:
    world = random_world(1)
    with pytest.raises(
        FragmentMismatchError, match="outside the segment of TOOL07 from 2026-10-26T00:00:00Z"
    ):
        scan_segment(Segment(START_US + DAY, START_US + 2 * DAY), world.fragments, world.spec)


def test_a_copy_of_a_file_changes_no_digest() -> None:
    world = random_world(3)
    spec = replace(
        world.spec, key=replace(world.spec.key, kind=type(world.spec.key.kind).CONTENT), order_by=()
    )
    alone = scan_segment(SEGMENT, world.fragments[:1], spec)
    copied = [world.fragments[0], replace(world.fragments[0], uri="file:/zz.csv")]
    both = scan_segment(SEGMENT, copied, spec)
    assert both.duplicates == alone.readings > 0
    assert both.digest == alone.digest
