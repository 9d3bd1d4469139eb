"""One checksum of rows: in SQL, value by value, and in Arrow, whole or in any parts."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from disarray.backfill.checksum import ValueRule, checksum_of_halves, row_hash, shown_checksum, value_text
from disarray.backfill.row_sums import RowSum, sum_of, sum_rows, sum_subject, value_texts
from disarray.backfill.user_database.fragments import measure_of
from disarray.backfill.user_database.session import load_layout, prepare_session

if TYPE_CHECKING:
    from tests.backfill.conftest import Shop

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
# By its type in PostgreSQL: a type of Arrow, and values.
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int2": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int4": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int8": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), ANY_TEXT | st.sampled_from(["-", "1:2", "", "3:"])),
    "float4": (pa.float32(), st.floats(width=32)),
    "float8": (pa.float64(), st.floats()),
    "numeric(20, 4)": (
        pa.decimal128(20, 4),
        st.decimals(-(10**15), 10**15, allow_nan=False, allow_infinity=False, places=4),
    ),
    "numeric": (
        pa.decimal256(60, 30),
        st.decimals(-(10**25), 10**25, allow_nan=False, allow_infinity=False, places=30),
    ),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "timestamptz": (
        pa.timestamp("us", tz="UTC"),
        st.integers(-(10**16), 10**17).map(lambda us: EPOCH + timedelta(microseconds=us)),
    ),
    "bytea": (pa.binary(), st.binary(max_size=12)),
}
ROWS = st.lists(st.tuples(*(st.none() | values for _, values in TYPES.values())), max_size=8)


@pytest.mark.postgres
def test_any_rows_have_one_checksum_in_sql_in_python_and_in_arrow(shop: Shop) -> None:
    connection = shop.connection
    columns = ", ".join(f"c{place} {name}" for place, name in enumerate(TYPES))
    connection.execute(f"create table shop.anything ({columns})".encode())
    prepare_session(connection)
    layout = load_layout(connection, "shop.anything")
    statement = measure_of(sql.SQL("select * from shop.anything"), layout.columns)
    insert = f"insert into shop.anything values ({', '.join(['%s'] * len(TYPES))})".encode()

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(rows=ROWS, size=st.integers(1, 4))
    def check(rows: list[tuple[Any, ...]], size: int) -> None:
        with connection.transaction(force_rollback=True), connection.cursor() as cursor:
            cursor.executemany(insert, rows)
            found = cursor.execute(statement).fetchone()
            stored = cursor.execute("select * from shop.anything").fetchall()
        assert found is not None
        _, _, count, *halves = found
        table = pa.table(
            {
                f"c{place}": pa.array([row[place] for row in stored], kind)
                for place, (kind, _) in enumerate(TYPES.values())
            }
        )
        # As Arrow has them: a float4 comes from the server as the shortest decimal, which is another float8.
        texts = [
            [
                value_text(value, column.rule)
                for value, column in zip(row.values(), layout.columns, strict=True)
            ]
            for row in table.to_pylist()
        ]
        measured = checksum_of_halves(*halves)
        assert (count, measured) == (len(rows), shown_checksum(sum(map(row_hash, texts))))
        assert (count, measured) == (sum_rows(table).rows, sum_rows(table).checksum)
        parts = [sum_rows(batch) for batch in reversed(table.to_batches(max_chunksize=size))]
        assert sum_of(parts) == sum_rows(table)

    check()


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([1.5, None, -0.0], pa.float32()), ["3ff8000000000000", None, "8000000000000000"]),
        (pa.array([math.nan, -math.nan, -math.inf]), ["7ff8000000000000", "7ff8000000000000", "fff0000000000000"]),
        (pa.array([Decimal("1E-9"), Decimal("-0.000000000"), None]), ["0.000000001", "0", None]),
        (pa.array([2**64 - 1], pa.uint64()), [str(2**64 - 1)]),
        (pa.array([-1], pa.timestamp("s")), ["-1000000"]),
        (pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("ns", tz="Asia/Tokyo")), ["1767225600000000"]),
        (pa.array([date(1, 1, 1)], pa.date64()), ["0001-01-01"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([b"\x00\xff"], pa.binary(2)), ["00ff"]),
        (pa.array(["µ"], pa.large_string()), ["µ"]),
        (pa.array([UUID(int=1).bytes], pa.uuid()), [str(UUID(int=1))]),
        (pa.array([None, None]), [None, None]),
        (pa.chunked_array([], pa.int64()), []),
    ],
    ids=str,
)  # fmt: skip
def test_values_of_other_types_become_the_texts_that_their_equals_in_sql_become(
    column: Any, texts: list[str | None]
) -> None:
    assert value_texts(column).to_pylist() == texts


def test_instants_finer_than_a_microsecond_are_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="would lose data"):
        value_texts(pa.array([1], pa.timestamp("ns")))


def test_rows_of_a_subject_count_with_its_name_and_in_whatever_order_columns_come() -> None:
    rows = pa.table({"a": [1, 2], "b": ["x", None]})
    found = sum_subject("L1", rows)
    assert found == sum_rows(pa.table({"s": ["L1", "L1"], "a": [1, 2], "b": ["x", None]}))
    assert found == sum_subject("L1", rows.select(["b", "a"]))
    assert found != sum_subject("L2", rows)
    assert sum_of([]) == RowSum() == sum_subject("L1", rows.slice(0, 0))


def test_more_rows_than_are_hashed_at_once_have_the_sum_of_their_parts() -> None:
    table = pa.table({"n": pa.array(range(70_000))})
    texts = [[value_text(n, ValueRule.PLAIN)] for n in range(70_000)]
    assert sum_rows(table).checksum == shown_checksum(sum(map(row_hash, texts)))
    assert sum_rows(table).rows == 70_000
