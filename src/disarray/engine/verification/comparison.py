"""Two tables side by side, bit for bit: what differs, and only that, leaves a task."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

MAX_LISTED = 100


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
    # Columns in which a stored NULL says nothing: of rows from before there was such a column.
    not_always_known: frozenset[str] = frozenset()

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
            *("base_int", "before_int", "prior_us", "prior_int", "reset_us"),
        ],
        floats=["total_float", "first_float", "last_float", "base_float", "before_float", "prior_float"],
    ),
    frozenset({"reset_us"}),
)
ROLLUP_PARTS = Comparison(
    _schema(texts=["subject_key", "rollup", "aggregate", "channel"], ints=["bucket_us", "segment_us"]),
    _schema(
        texts=["label"],
        ints=["bucket_end_us", "points", "value_int", "at_us"],
        floats=["value_float", "pivot", "offset_sum", "offset_square_sum"],
    ),
)


def differences(
    stored: pa.Table, recomputed: pa.Table, comparison: Comparison, *, dataset: str, what: str
) -> list[Difference]:
    """The values of the first rows that differ; a row that is on one side alone differs as a whole."""
    return [
        Difference(
            dataset=dataset,
            subject_key=key["subject_key"],
            what=f"{what} {column}",
            name=f"{key['rollup']}.{key['aggregate']}" if "rollup" in key else key.get("metric", ""),
            channel=key.get("channel", ""),
            segment_us=key["segment_us"],
            stored=left,
            recomputed=right,
        )
        for key, column, left, right in _differing(stored, recomputed, comparison)
    ]


def exact_bits(table: pa.Table) -> pa.Table:
    """The table with the bits of its floats for the floats: -0.0 is not 0.0."""
    for number, each in enumerate(table.schema):
        if pa.types.is_floating(each.type):
            bits = pa.chunked_array(
                [chunk.view(pa.int64()) for chunk in table.column(number).chunks], pa.int64()
            )
            table = table.set_column(number, each.name, bits)
    return table


def _differing(
    stored: pa.Table, recomputed: pa.Table, comparison: Comparison
) -> Iterator[tuple[dict[str, Any], str, Any, Any]]:
    names = comparison.keys.names
    order = [(name, "ascending") for name in names]
    stored, recomputed = stored.sort_by(order), recomputed.sort_by(order)
    if stored.select(names).equals(recomputed.select(names)):
        left, right, rows = stored, recomputed, stored.num_rows
        pairs = np.arange(rows), np.arange(rows)
    else:
        pairs = _paired(stored, recomputed, names)
        left, right = (_taken(table, own) for table, own in zip((stored, recomputed), pairs, strict=True))
    alone = (pairs[0] < 0) | (pairs[1] < 0)
    differs = alone.copy()
    exact_left, exact_right = exact_bits(left), exact_bits(right)
    for name in comparison.values.names:
        equal = _equal(exact_left.column(name), exact_right.column(name))
        if name in comparison.not_always_known:
            equal |= left.column(name).is_null().to_numpy()
        differs |= ~equal
    for row in np.flatnonzero(differs)[:MAX_LISTED].tolist():
        side = right if pairs[0][row] < 0 else left
        key = {name: side.column(name)[row].as_py() for name in names}
        if alone[row]:
            there = [None if own[row] < 0 else "there" for own in pairs]
            yield key, "row", there[0], there[1]
            continue
        for name in comparison.values.names:
            first, second = left.column(name)[row].as_py(), right.column(name)[row].as_py()
            if not is_same(first, second) and (first is not None or name not in comparison.not_always_known):
                yield key, name, first, second


def _paired(
    stored: pa.Table, recomputed: pa.Table, names: list[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """By key of either side, in order: where it stands on each; -1 where it does not."""
    left = stored.select(names).append_column("_left", pa.array(np.arange(stored.num_rows)))
    right = recomputed.select(names).append_column("_right", pa.array(np.arange(recomputed.num_rows)))
    joined = left.join(right, names, join_type="full outer", use_threads=False)
    joined = joined.sort_by([(name, "ascending") for name in names])
    found = [joined.column(name).fill_null(-1).to_numpy() for name in ("_left", "_right")]
    return found[0], found[1]


def _taken(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    return table.take(pa.array(rows, mask=rows < 0))


def _equal(left: pa.ChunkedArray[Any], right: pa.ChunkedArray[Any]) -> NDArray[np.bool_]:
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    same = pc.fill_null(pc.equal(left, right), False)
    found: NDArray[np.bool_] = pc.or_(same, both_null).to_numpy()
    return found


def is_same(left: float | str | None, right: float | str | None) -> bool:
    """Whether two values are equal to the bit."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("d", left) == struct.pack("d", right)
    return left == right
