"""Fragments out of the lake, as the kernels take them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from disarray.kernels.segment_rows import FragmentInput
from disarray.model.format import POSITION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from disarray.kernels.fragments import FragmentReader
    from disarray.model.plan import FragmentEntry


def fragment_inputs(
    reader: FragmentReader,
    fragments: Sequence[FragmentEntry],
    absolute: Callable[[str], str],
    *,
    priority: int,
) -> list[FragmentInput]:
    """Fragments as the kernels take them; each must hold as many readings as the catalog says."""
    wanted: dict[str, list[int]] = defaultdict(list)
    for fragment in fragments:
        wanted[fragment.path].append(fragment.row_group)
    tables = {path: reader.read(absolute(path), row_groups) for path, row_groups in wanted.items()}
    return [
        _fragment_input(fragment, tables[fragment.path][fragment.row_group], priority=priority)
        for fragment in fragments
    ]


def _fragment_input(fragment: FragmentEntry, readings: pa.Table, *, priority: int) -> FragmentInput:
    valid, cut = fragment.readings, fragment.cut_position
    if cut is not None and readings.num_rows == fragment.readings:
        valid = int(np.count_nonzero(readings.column(POSITION).to_numpy() < cut))
    return FragmentInput(readings=readings, uri=fragment.order_key, rows=valid, priority=priority, cut=cut)
