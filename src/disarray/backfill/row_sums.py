"""Counts and checksums of Arrow tables: the number of `checksum.py`, a column at a time instead of a value.

PostgreSQL (`user_database.fragments`), `value_text` and this give the same rows the same number, in any order and in
any parts: what tasks of Spark sum up is added here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.backfill.checksum import MODULUS, ValueRule, shown_checksum, value_text

if TYPE_CHECKING:
    from collections.abc import Iterable

# What is hashed at once. The sum of as many numbers of 32 bits is far from 64.
_ROWS = 65_536
_BYTES_OF_A_HASH = 16


@dataclass(frozen=True, slots=True)
class RowSum:
    """How many rows, and the sum of their hashes modulo 2^128."""

    rows: int = 0
    total: int = 0

    def __add__(self, other: RowSum) -> RowSum:
        return RowSum(self.rows + other.rows, (self.total + other.total) % MODULUS)

    @property
    def checksum(self) -> str:
        """The checksum as it is stored and shown."""
        return shown_checksum(self.total)


def sum_rows(rows: pa.Table | pa.RecordBatch) -> RowSum:
    """The sum of some rows; the values of a row are its columns in their order."""
    found = RowSum()
    for start in range(0, rows.num_rows, _ROWS):
        part = rows.slice(start, _ROWS)
        found += RowSum(part.num_rows, _total(_joined(part)))
    return found


def sum_subject(subject_key: str, rows: pa.Table) -> RowSum:
    """The sum of rows of a subject, which is a value of each; columns are taken in the order of their names."""
    columns = [rows.column(name) for name in sorted(rows.column_names)]
    subject = pa.chunked_array([pa.repeat(pa.scalar(subject_key), rows.num_rows)])
    return sum_rows(pa.table([subject, *columns], names=[str(place) for place in range(len(columns) + 1)]))


def sum_of(parts: Iterable[RowSum]) -> RowSum:
    """The sum of all the rows behind some sums."""
    return sum(parts, start=RowSum())


def value_texts(column: Any) -> Any:
    """Values as the texts that are hashed, as `value_text` writes them.

    Instants finer than a microsecond are refused: no two databases would agree on what is left of them. Types for which
    there is no rule are as Arrow casts them.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column.type, pa.UuidType):
        return pa.array([value_text(value, ValueRule.PLAIN) for value in column.to_pylist()], pa.string())
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        return _bits(column)
    if pa.types.is_decimal(column.type):
        # Arrow writes small ones with an exponent.
        return pa.array([value_text(value, ValueRule.DECIMAL) for value in column.to_pylist()], pa.string())
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).cast(pa.string())
    if _is_binary(column.type):
        return pa.array([value_text(value, ValueRule.BYTES) for value in column.to_pylist()], pa.string())
    if pa.types.is_date64(column.type):
        column = column.cast(pa.date32())
    return column.cast(pa.string())


def _bits(column: Any) -> Any:
    """Floats as the 8 bytes of the float8, in hex."""
    values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    shown = np.where(np.isnan(values), np.nan, values).astype(">f8").tobytes().hex()
    texts = pa.array([shown[place : place + 16] for place in range(0, len(shown), 16)], pa.string())
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))


def _is_binary(kind: Any) -> bool:
    return any(
        holds(kind)
        for holds in (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        )
    )


def _joined(rows: pa.Table | pa.RecordBatch) -> list[bytes]:
    """Each row as it is hashed."""
    written = []
    for column in rows.columns:
        texts = value_texts(column)
        lengths = pc.utf8_length(texts).cast(pa.string())
        written.append(pc.binary_join_element_wise(lengths, texts, ":").fill_null("-"))
    joined: list[bytes] = pc.binary_join_element_wise(*written, "").cast(pa.binary()).to_pylist()
    return joined


def _total(rows: list[bytes]) -> int:
    digests = b"".join(hashlib.md5(row, usedforsecurity=False).digest() for row in rows)
    words = np.frombuffer(digests, ">u4").reshape(-1, _BYTES_OF_A_HASH // 4).sum(axis=0, dtype=np.uint64)
    total = 0
    for word in words.tolist():
        total = (total << 32) + word
    return total % MODULUS
