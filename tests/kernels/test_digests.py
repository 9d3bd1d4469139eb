from __future__ import annotations

import pyarrow as pa
import pytest

from disarray.kernels.scanning.digests import digest_readings
from disarray.model.description.format import EVENT_US, POSITION
from tests.kernels.expression_reference import ARROW, COLUMNS
from tests.kernels.scan_worlds import random_world

BASE = {
    EVENT_US: pa.array([1, 2, 3]),
    POSITION: pa.array([10, 20, 30]),
    "x": pa.array([0.5, None, 0.0]),
    "s": pa.array(["ab", "c", None]),
    "b": pa.array([True, None, False]),
}


def test_how_arrow_holds_readings_leaves_no_trace() -> None:
    for fragment in random_world(5).fragments:
        table = fragment.readings
        pieces = [table.slice(0, 1), table.slice(1, 2), table.slice(3)]
        chunked = pa.concat_tables([pa.concat_tables([piece]).combine_chunks() for piece in pieces])
        assert digest_readings(chunked) == digest_readings(table)
        assert digest_readings(table.slice(1)) == digest_readings(
            table.slice(1).take(list(range(len(table) - 1)))
        )


def test_where_a_reading_stands_in_its_file_leaves_no_trace() -> None:
    moved = BASE | {POSITION: pa.array([11, 21, 31])}
    assert digest_readings(pa.table(moved)) == digest_readings(pa.table(BASE))


def test_the_order_of_columns_leaves_no_trace() -> None:
    turned = dict(reversed(BASE.items()))
    assert digest_readings(pa.table(turned)) == digest_readings(pa.table(BASE))


@pytest.mark.parametrize(
    "change",
    [
        {EVENT_US: pa.array([1, 2, 4])},
        {"x": pa.array([0.5, 0.0, 0.0])},
        {"x": pa.array([0.5, 0.0, None])},
        {"s": pa.array(["a", "bc", None])},
        {"s": pa.array(["ab", "c", ""])},
        {"b": pa.array([True, False, False])},
    ],
    ids=[
        "time",
        "null is not zero",
        "which is null",
        "where texts end",
        "null is not empty",
        "null is not false",
    ],
)
def test_any_change_that_a_user_can_see_changes_the_digest(change: dict[str, pa.Array]) -> None:
    assert digest_readings(pa.table(BASE | change)) != digest_readings(pa.table(BASE))


def test_a_segment_without_readings_has_a_digest() -> None:
    schema = pa.schema([(EVENT_US, pa.int64()), *((name, ARROW[kind]) for name, kind in COLUMNS.items())])
    assert len(digest_readings(schema.empty_table())) == 32
