"""How much of a table's segment stays: what stands to the left of the first block that differs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from disarray.kernels.scanning.table_rows import count_rows_alike, digest_rows
from disarray.model.description.readings_table import EVENT_AT

URIS = ["file:///a", "file:///b"]


def rows(*events: int) -> pa.Table:
    return pa.table(
        {EVENT_AT: pa.array(events, pa.int64()), "volts": pa.array([each / 8 for each in events])}
    )


def count(stored: pa.Table, found: pa.Table, *, source: int = 0) -> int:
    first = np.zeros(stored.num_rows, dtype=np.int64)
    now = np.zeros(found.num_rows, dtype=np.int64)
    now[2000:] = source
    return count_rows_alike(
        found, URIS, now, stored_rows=stored.num_rows, stored_digest=digest_rows(stored, URIS, first)
    )


STORED = rows(*range(5000))


@pytest.mark.parametrize(
    ("found", "alike"),
    [
        (STORED, 5000),
        (rows(*range(5001)), 5000),
        (rows(*range(40_000)), 5000),  # so many more that its own blocks are larger
        (rows(*range(3000), -1, *range(3000, 5000)), 2048),
        (rows(-1, *range(5000)), 0),
        (rows(*range(4999)), 4096),
        (rows(*range(1000)), 0),
        (rows(*range(1024)), 1024),
        (rows(), 0),
    ],
    ids=[
        "the same",
        "a row more",
        "many more",
        "late",
        "late at the start",
        "one less",
        "most gone",
        "a block",
        "none",
    ],
)
def test_the_blocks_before_the_first_difference_stay(found: pa.Table, alike: int) -> None:
    assert count(STORED, found) == alike


def test_readings_that_another_file_says_now_are_no_longer_the_same() -> None:
    assert count(STORED, STORED, source=1) == 1024


def test_a_digest_grows_by_blocks_and_not_without_end() -> None:
    assert [
        digest_rows(rows(*range(size)), URIS, np.zeros(size, dtype=np.int64)).count(".") + 1
        for size in (1, 1024, 1025, 16_384, 16_385, 100_000)
    ] == [1, 1, 2, 16, 9, 13]
