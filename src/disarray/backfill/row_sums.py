"""Counts and checksums of Arrow tables: the checksum of `checksum.py`, a column at a time instead of a value."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from disarray.backfill.checksum import shown_checksum

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROWS = 65_536


class RowSum:
    """The number and the checksum of rows, in whatever order and in how many parts they come.

    A value is the text that Arrow casts it to: what is compared was read by Arrow on both sides.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._total = 0

    @property
    def checksum(self) -> str:
        """The checksum of all rows so far."""
        return shown_checksum(self._total)

    def add(self, subject_key: str, rows: pa.Table) -> None:
        """Add rows of a subject, which is a value of each; columns are taken in the order of their names."""
        names = sorted(rows.column_names)
        for start in range(0, rows.num_rows, _ROWS):
            part = rows.slice(start, _ROWS)
            subject = pa.repeat(pa.scalar(subject_key), part.num_rows)
            texts = [_written(subject), *(_written(part.column(name)) for name in names)]
            self._total += sum(map(_hash, _joined(texts)))
            self.rows += part.num_rows


def _written(column: Any) -> Any:
    """Each value as `length:text`, NULL as `-`."""
    text = pc.cast(column, pa.string())
    lengths = pc.cast(pc.utf8_length(text), pa.string())
    return pc.fill_null(pc.binary_join_element_wise(lengths, text, ":"), "-")


def _joined(texts: Sequence[Any]) -> list[str]:
    found: list[str] = pc.binary_join_element_wise(*texts, "").to_pylist()
    return found


def _hash(written: str) -> int:
    return int.from_bytes(hashlib.md5(written.encode(), usedforsecurity=False).digest())
