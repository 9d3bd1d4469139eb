"""Fragments out of the lake, as the kernels take them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from disarray.errors import FragmentDamagedError
from disarray.kernels.scanning.segment_rows import FragmentInput
from disarray.model.description.format import POSITION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from disarray.kernels.fragments.fragment_reader import FragmentReader
    from disarray.model.fragments import Extent, FragmentEntry


def fragment_inputs(
    reader: FragmentReader,
    fragments: Sequence[FragmentEntry],
    absolute: Callable[[str], str],
    *,
    subject_key: str,
    known: Mapping[Extent, pa.Table] | None = None,
) -> list[FragmentInput]:
    """Fragments as the kernels take them, each as it was written and with as many readings as the catalog says.

    `known` are readings that were read already, by where they lie.
    """
    tables = dict(known or {})
    by_path: dict[str, list[FragmentEntry]] = defaultdict(list)
    for fragment in fragments:
        if fragment.extent not in tables:
            by_path[fragment.path].append(fragment)
    for path, group in by_path.items():
        read = _read(reader, absolute(path), group, subject_key=subject_key)
        tables |= {fragment.extent: own_rows(fragment, read[fragment.row_group]) for fragment in group}
    return [_fragment_input(fragment, tables[fragment.extent]) for fragment in fragments]


def _read(
    reader: FragmentReader, path: str, fragments: Sequence[FragmentEntry], *, subject_key: str
) -> dict[int, pa.Table]:
    digests = {each.row_group: each.digest for each in fragments if each.digest is not None}
    checksums = [each.file_checksum for each in fragments if each.file_checksum is not None]
    row_groups = list(dict.fromkeys(each.row_group for each in fragments))
    try:
        return reader.read(path, row_groups, digests=digests, checksum=checksums[0] if checksums else None)
    except FragmentDamagedError as error:
        damaged = error.row_groups or row_groups
        uris = {each.source_uri for each in fragments if each.row_group in damaged}
        raise error.holding(subject_key, sorted(uris)) from error


def read_own_rows(reader: FragmentReader, path: str, fragment: FragmentEntry) -> pa.Table:
    """The readings of one fragment, cut or not, from a file of the lake."""
    digests = {} if fragment.digest is None else {fragment.row_group: fragment.digest}
    found = reader.read(path, [fragment.row_group], digests=digests, checksum=fragment.file_checksum)
    return own_rows(fragment, found[fragment.row_group])


def own_rows(fragment: FragmentEntry, row_group: pa.Table) -> pa.Table:
    """The readings of a fragment out of its row group."""
    return row_group if fragment.first_row is None else row_group.slice(fragment.first_row, fragment.readings)


def _fragment_input(fragment: FragmentEntry, readings: pa.Table) -> FragmentInput:
    valid, cut = fragment.readings, fragment.cut_position
    if cut is not None and readings.num_rows == fragment.readings:
        valid = int(np.count_nonzero(readings.column(POSITION).to_numpy() < cut))
    return FragmentInput(
        readings=readings, uri=fragment.order_key, rows=valid, priority=fragment.arrival, cut=cut
    )
