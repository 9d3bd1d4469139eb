"""Fragments of one file into one, and the proof that a segment reads the same afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from blake3 import blake3

from disarray.kernels.fragments.ordering import DIGEST_BYTES, digest_table, in_canonical_order
from disarray.model.description.format import POSITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.kernels.scanning.merging import Merged
    from disarray.kernels.scanning.segment_rows import FragmentInput


def join_fragments(fragments: Sequence[FragmentInput], order_by: Sequence[str]) -> pa.Table:
    """The valid readings of some fragments of one file and segment, sorted as a fragment is."""
    return in_canonical_order(pa.concat_tables([_valid(fragment) for fragment in fragments]), order_by)


def identity_of(merged: Merged) -> str:
    """A digest of all that can be told of a merged segment: winners with file and position, and how many lost.

    Stricter than `digest_readings`, which says what a user can see: equal readings of another file would pass there.
    """
    hasher = blake3()
    hasher.update(digest_table(merged.readings).encode())
    hasher.update(f"{merged.duplicates}:{merged.conflicts}:{merged.uris!r}".encode())
    hasher.update(merged.sources.tobytes())
    return hasher.digest(length=DIGEST_BYTES).hex()


def _valid(fragment: FragmentInput) -> pa.Table:
    if fragment.cut is None:
        return fragment.readings
    return fragment.readings.filter(pa.array(fragment.readings.column(POSITION).to_numpy() < fragment.cut))
