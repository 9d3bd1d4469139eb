"""Two tables side by side, bit for bit: what differs, and only that, leaves Spark."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

MAX_LISTED = 100

_SPARK_TYPES: dict[pa.DataType, DataType] = {
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One value that is not what a recompute gives; `name` is a metric, an aggregate of a rollup, or a file."""

    dataset: str
    subject_key: str
    what: str
    name: str
    channel: str
    segment_us: int | None
    stored: int | float | str | None
    recomputed: int | float | str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table of the catalog: what tells its rows apart, and what is compared."""

    keys: pa.Schema
    values: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """Keys and values."""
        return pa.schema([*self.keys, *self.values])


def _schema(*, texts: Sequence[str] = (), ints: Sequence[str] = (), floats: Sequence[str] = ()) -> pa.Schema:
    kinds = [(texts, pa.string()), (ints, pa.int64()), (floats, pa.float64())]
    return pa.schema([(name, kind) for names, kind in kinds for name in names])


SEGMENTS = Comparison(
    _schema(texts=["subject_key"], ints=["segment_us"]), _schema(texts=["digest"], ints=["readings"])
)
BASES = ("base_float", "base_int", "before_float", "before_int")
PRIORS = ("prior_us", "prior_float", "prior_int", "prior_break")
SUMMARIES = Comparison(
    _schema(texts=["subject_key", "metric", "channel"], ints=["segment_us", "piece"]),
    _schema(
        texts=["first_break", "first_reset", "last_break", "last_reset", "prior_break"],
        ints=[
            *("readings", "points", "total_int", "first_us", "first_int", "last_us", "last_int"),
            *("base_int", "before_int", "prior_us", "prior_int"),
        ],
        floats=["total_float", "first_float", "last_float", "base_float", "before_float", "prior_float"],
    ),
)
ROLLUP_PARTS = Comparison(
    _schema(texts=["subject_key", "rollup", "aggregate", "channel"], ints=["bucket_us", "segment_us"]),
    _schema(
        texts=["label"],
        ints=["bucket_end_us", "points", "value_int", "at_us"],
        floats=["value_float", "pivot", "offset_sum", "offset_square_sum"],
    ),
)


def stored_table(
    session: SparkSession, rows: Sequence[Mapping[str, Any]], comparison: Comparison, path: Path
) -> DataFrame:
    """Rows of the catalog as Spark has them, through a file: floats keep their bits."""
    pq.write_table(pa.Table.from_pylist(list(rows), schema=comparison.schema), path)
    fields = [StructField(each.name, _SPARK_TYPES[each.type]) for each in comparison.schema]
    return session.read.schema(StructType(fields)).parquet(str(path))


def differing_rows(stored: DataFrame, recomputed: DataFrame, comparison: Comparison) -> list[dict[str, Any]]:
    """The first rows that differ, each with both sides; one that is on one side alone differs too."""
    keys, values = comparison.keys.names, comparison.values.names
    left = stored.select(*keys, F.struct(*values).alias("stored"))
    right = recomputed.select(*keys, F.struct(*values).alias("recomputed"))
    same = F.col("stored").isNotNull() & F.col("recomputed").isNotNull()
    for each in comparison.values:
        same &= _exact("stored", each).eqNullSafe(_exact("recomputed", each))
    joined = left.join(right, keys, "full_outer").where(~same).orderBy(*keys).limit(MAX_LISTED)
    return [row.asDict(recursive=True) for row in joined.collect()]


def differing_values(row: Mapping[str, Any], comparison: Comparison) -> list[tuple[str, Any, Any]]:
    """The columns of a row that differ, with both values."""
    stored, recomputed = row["stored"], row["recomputed"]
    if stored is None or recomputed is None:
        return [("row", stored and "there", recomputed and "there")]
    return [
        (name, stored[name], recomputed[name])
        for name in comparison.values.names
        if not is_same(stored[name], recomputed[name])
    ]


def is_same(left: float | str | None, right: float | str | None) -> bool:
    """Whether two values are equal to the bit."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("d", left) == struct.pack("d", right)
    return left == right


def _exact(side: str, each: pa.Field) -> Column:
    # Spark takes -0.0 for 0.0; the texts of two floats are the same only if their bits are.
    column = F.col(f"{side}.{each.name}")
    return column.cast("string") if pa.types.is_floating(each.type) else column
