"""Readings that lose under a key though they say something else: counted exactly, the earliest listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from disarray.kernels.texts import value_texts
from disarray.kernels.vectors import identity, vector_of
from disarray.model.format import CHANNEL, EVENT_US, POSITION
from disarray.model.read_spec import KeyKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.kernels.segment_rows import Rows
    from disarray.model.scan_spec import ScanSpec

CONFLICT_SCHEMA = pa.schema(
    [
        ("event_us", pa.int64()),
        ("channel", pa.string()),
        ("key_values", pa.string()),  # canonical text of the key columns
        ("winner_uri", pa.string()),
        ("winner_position", pa.int64()),
        ("loser_uri", pa.string()),
        ("loser_position", pa.int64()),
    ]
)
MAX_LISTED = 20


def list_conflicts(
    rows: Rows,
    losers: NDArray[np.int64],
    winners: NDArray[np.int64],
    *,
    uris: Sequence[str],
    spec: ScanSpec,
) -> tuple[int, pa.Table]:
    """How many losers differ from their winner in a declared column, and the first of them in canonical order."""
    if spec.key.kind is not KeyKind.COLUMNS or not len(losers):
        return 0, CONFLICT_SCHEMA.empty_table()
    places = np.concatenate([losers, winners])
    table = rows.at(places, list(spec.columns))
    differs = np.zeros(len(losers), dtype=np.bool_)
    for column in table.columns:
        vector = vector_of(column)
        numbers = identity(vector)
        differs |= numbers[: len(losers)] != numbers[len(losers) :]
        if vector.valid is not None:
            differs |= vector.valid[: len(losers)] != vector.valid[len(losers) :]
    found = np.flatnonzero(differs)
    listed = found[np.argsort(losers[found], kind="stable")][:MAX_LISTED]
    lost, won = losers[listed], winners[listed]
    source, position = rows.in_order(rows.sources), rows.numbers(POSITION)
    names = [EVENT_US, *([CHANNEL] if spec.has_channel else []), *spec.key.columns]
    at_loser = rows.at(lost, names)
    channel = at_loser.column(CHANNEL).to_pylist() if spec.has_channel else [""] * len(lost)
    columns = [vector_of(at_loser.column(name)) for name in spec.key.columns]
    return len(found), pa.table(
        [
            at_loser.column(EVENT_US),
            channel,
            value_texts(columns, np.arange(len(lost))),
            [uris[rank] for rank in source[won]],
            position[won],
            [uris[rank] for rank in source[lost]],
            position[lost],
        ],
        schema=CONFLICT_SCHEMA,
    )
