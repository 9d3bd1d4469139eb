"""Functions that backfills of the tests call."""

from __future__ import annotations

import os

import psycopg
import pyarrow as pa
import pyarrow.compute as pc


def count_up(rows: pa.Table) -> pa.Table:
    """One more, from what was read."""
    return pa.table({"touched": pc.add(rows["touched"], 1)})


def net(rows: pa.Table) -> pa.Table:
    return pa.table(
        {
            "net": pc.subtract(rows["gross"].cast(pa.float64()), rows["tax"]),
            "note": pc.coalesce(rows["note"], "none"),
        }
    )


def too_few(rows: pa.Table) -> pa.Table:
    return pa.table({"touched": [1]})


def fractions(rows: pa.Table) -> pa.Table:
    return pa.table({"touched": pa.array([0.5] * rows.num_rows)})


def long_codes(rows: pa.Table) -> pa.Table:
    return pa.table({"code": ["abcdefgh"] * rows.num_rows})


def failing(rows: pa.Table) -> pa.Table:
    raise ValueError("no such price")


def count_up_meddled_with(rows: pa.Table) -> pa.Table:
    """While it computes, somebody changes every row that was not changed yet."""
    with psycopg.connect(os.environ["MEDDLER_DSN"], autocommit=True) as meddler:
        meddler.execute(
            "update shop.orders set note = 'meddled' where id = any(%s) and note is distinct from 'meddled'",
            (rows["id"].to_pylist(),),
        )
    return count_up(rows)
