"""Fragments out of the lake, as the kernels take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from disarray.kernels.fragments import read_fragment
from disarray.kernels.segment_rows import FragmentInput
from disarray.model.format import POSITION

if TYPE_CHECKING:
    from disarray.model.plan import FragmentEntry


def fragment_input(fragment: FragmentEntry, path: str, *, priority: int) -> FragmentInput:
    """A fragment as the kernels take it; it must hold as many readings as the catalog says."""
    readings = read_fragment(path, fragment.row_group)
    valid = fragment.readings
    if fragment.cut_position is not None and readings.num_rows == fragment.readings:
        valid = int(np.count_nonzero(readings.column(POSITION).to_numpy() < fragment.cut_position))
    return FragmentInput(
        readings=readings,
        uri=fragment.order_key,
        rows=valid,
        priority=priority,
        cut=fragment.cut_position,
    )
