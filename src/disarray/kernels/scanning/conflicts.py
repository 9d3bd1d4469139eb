"""Readings that lose under a key though they say something else: counted exactly, the earliest listed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from disarray.kernels.scanning.value_texts import value_texts
from disarray.kernels.scanning.vectors import identity, vector_of
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION
from disarray.model.description.read_spec import KeyKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.kernels.scanning.segment_rows import Rows
    from disarray.model.description.scan_spec import ScanSpec

CONFLICT_SCHEMA = pa.schema(
    [
        ("event_us", pa.int64()),
        ("channel", pa.string()),
        ("key_values", pa.string()),  # canonical text of the key columns
        ("winner_uri", pa.string()),
        ("winner_position", pa.int64()),
        ("loser_uri", pa.string()),
        ("loser_position", pa.int64()),
        ("differences", pa.string()),  # JSON: column → [the winner's value, the loser's]
    ]
)
MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Readings of a segment that lost to others which say something else."""

    count: int
    listing: pa.Table  # the earliest of them; CONFLICT_SCHEMA
    pairs: tuple[tuple[str, str, int], ...]  # uri of the winner, uri of the loser, how many


NO_CONFLICTS = Conflicts(0, CONFLICT_SCHEMA.empty_table(), ())


def list_conflicts(
    rows: Rows,
    losers: NDArray[np.int64],
    winners: NDArray[np.int64],
    *,
    uris: Sequence[str],
    spec: ScanSpec,
) -> Conflicts:
    """How many losers differ from their winner in a declared column, and the first of them in canonical order."""
    if spec.key.kind is not KeyKind.COLUMNS or not len(losers):
        return NO_CONFLICTS
    indices = np.concatenate([losers, winners])
    table = rows.at(indices, list(spec.columns))
    differs = np.zeros(len(losers), dtype=np.bool_)
    for column in table.columns:
        vector = vector_of(column)
        numbers = identity(vector)
        differs |= numbers[: len(losers)] != numbers[len(losers) :]
        if vector.valid is not None:
            differs |= vector.valid[: len(losers)] != vector.valid[len(losers) :]
    found = np.flatnonzero(differs)
    if not len(found):
        return NO_CONFLICTS
    listed = found[np.argsort(losers[found], kind="stable")][:MAX_LISTED]
    lost, won = losers[listed], winners[listed]
    source, position = rows.in_order(rows.sources), rows.numbers(POSITION)
    names = [EVENT_US, *([CHANNEL] if spec.has_channel else []), *spec.key.columns]
    at_loser = rows.at(lost, names)
    channel = at_loser.column(CHANNEL).to_pylist() if spec.has_channel else [""] * len(lost)
    columns = [vector_of(at_loser.column(name)) for name in spec.key.columns]
    values = [name for name in spec.columns if name not in spec.key.columns]
    differences = _differences(rows.at(won, values).to_pylist(), rows.at(lost, values).to_pylist())
    listing = pa.table(
        [
            at_loser.column(EVENT_US),
            channel,
            value_texts(columns, np.arange(len(lost))),
            [uris[rank] for rank in source[won]],
            position[won],
            [uris[rank] for rank in source[lost]],
            position[lost],
            differences,
        ],
        schema=CONFLICT_SCHEMA,
    )
    pairs, counts = np.unique(
        np.stack([source[winners[found]], source[losers[found]]]), axis=1, return_counts=True
    )
    return Conflicts(
        count=len(found),
        listing=listing,
        pairs=tuple(
            (uris[winner], uris[loser], int(count))
            for winner, loser, count in zip(*pairs.tolist(), counts.tolist(), strict=True)
        ),
    )


def _differences(winners: list[dict[str, Any]], losers: list[dict[str, Any]]) -> list[str]:
    return [
        json.dumps(
            {name: [value, lost[name]] for name, value in won.items() if repr(value) != repr(lost[name])},
            default=str,
        )
        for won, lost in zip(winners, losers, strict=True)
    ]
