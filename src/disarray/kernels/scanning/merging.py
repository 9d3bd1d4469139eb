"""Fragments of one segment into one run of readings: canonical order, one winner per key, conflicts listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from disarray.kernels.scanning.conflicts import list_conflicts
from disarray.kernels.scanning.segment_rows import concatenate
from disarray.kernels.scanning.winners import find_losers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from disarray.kernels.scanning.segment_rows import FragmentInput
    from disarray.model.description.scan_spec import ScanSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The winners of a segment in canonical order, and what became of the others."""

    readings: pa.Table  # event time, position, channel if there is one, declared columns
    sources: NDArray[np.int32]  # by reading: index into `uris`
    uris: tuple[str, ...]  # by UTF-8 bytes
    duplicates: int  # readings that lost to another under their key
    conflicts: int  # duplicates whose values differ from the winner's
    conflict_list: pa.Table  # the earliest of them; CONFLICT_SCHEMA
    conflict_pairs: tuple[tuple[str, str, int], ...]  # uri of the winner, uri of the loser, how many


def merge_fragments(fragments: Sequence[FragmentInput], spec: ScanSpec) -> Merged:
    """One run of readings from the fragments of one segment; the order of the fragments leaves no trace."""
    uris = tuple(sorted({fragment.uri for fragment in fragments}, key=str.encode))
    rows = concatenate(fragments, uris, spec)
    losers, winners = find_losers(rows, spec)
    conflicts = list_conflicts(rows, losers, winners, uris=uris, spec=spec)
    if len(losers):
        kept = np.ones(len(rows), dtype=np.bool_)
        kept[losers] = False
        rows = rows.only(np.flatnonzero(kept))
    return Merged(
        readings=rows.table if rows.order is None else rows.table.take(pa.array(rows.order)),
        sources=rows.in_order(rows.sources),
        uris=uris,
        duplicates=len(losers),
        conflicts=conflicts.count,
        conflict_list=conflicts.listing,
        conflict_pairs=conflicts.pairs,
    )
