"""Typed rows placed in time: the Arrow table of readings that fragments are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.kernels.parsing.candidates import Disposition
from disarray.kernels.parsing.columns import ARROW_TYPES
from disarray.kernels.parsing.rejects import RejectReason
from disarray.kernels.parsing.zones import END_EVENT_US, FIRST_EVENT_US, load_zone
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from disarray.kernels.parsing.candidates import Candidates
    from disarray.model.description.read_spec import ReadSpec
    from disarray.model.fingerprints import FoldMark

_NOT_KEPT: tuple[Disposition, ...] = tuple(kind for kind in Disposition if kind is not Disposition.KEPT)


def readings_schema(spec: ReadSpec) -> pa.Schema:
    """The columns of every fragment of a dataset.

    The occurrence number of a reading among equal ones of its file is not among them: copies agree in event time,
    so they lie in one segment, and the scan of that segment counts them by position.
    """
    fields = [pa.field(EVENT_US, pa.int64(), nullable=False), pa.field(POSITION, pa.int64(), nullable=False)]
    if spec.channel is not None:
        fields.append(pa.field(CHANNEL, pa.string(), nullable=False))
    fields += [pa.field(column.name, ARROW_TYPES[column.type]) for column in spec.columns]
    return pa.schema(fields)


@dataclass(frozen=True, slots=True)
class Placed:
    """Readings in file order, and the fold marks after them."""

    table: pa.Table
    folds: tuple[FoldMark, ...]


def place_in_time(
    candidates: Candidates,
    spec: ReadSpec,
    *,
    positions: NDArray[np.int64],
    folds: tuple[FoldMark, ...],
    latest_us: int | None,
    reject: Callable[[NDArray[np.int64], RejectReason], None],
) -> Placed:
    """Turn local stamps into UTC and reject times that cannot be; `positions` is by line of the frame."""

    def only(keep: NDArray[np.bool_], reason: RejectReason) -> None:
        nonlocal candidates
        if not keep.all():
            reject(candidates.rows[~keep], reason)
            candidates = candidates.filter(keep)

    us = candidates.us
    if len(us) and (us.min() < FIRST_EVENT_US or us.max() >= END_EVENT_US):
        only((us >= FIRST_EVENT_US) & (us < END_EVENT_US), RejectReason.TIME_OUT_OF_RANGE)
    event_us = candidates.us
    if candidates.is_local.any():
        zone = load_zone(spec.event_time.zone or "UTC")
        local = slice(None) if candidates.is_local.all() else candidates.is_local
        event_us = event_us.copy()
        event_us[local], in_gap, folds = zone.to_utc(event_us[local], folds)
        if in_gap is not None:
            keep = np.ones(len(event_us), dtype=np.bool_)
            keep[local] = ~in_gap
            event_us = event_us[keep]
            only(keep, RejectReason.NONEXISTENT_LOCAL_TIME)
    if latest_us is not None and len(event_us) and event_us.max() > latest_us:
        keep = event_us <= latest_us
        event_us = event_us[keep]
        only(keep, RejectReason.IN_FUTURE)
    return Placed(_table(candidates, spec, event_us, positions), folds)


def _table(
    candidates: Candidates, spec: ReadSpec, event_us: NDArray[np.int64], positions: NDArray[np.int64]
) -> pa.Table:
    if len(candidates.rows) < len(positions):
        positions = positions[candidates.rows]
    arrays: list[pa.Array[Any]] = [pa.array(event_us), pa.array(positions)]
    if spec.channel is not None:
        channel = candidates.columns[spec.column_names.index(spec.channel)]
        arrays.append(pc.cast(channel, pa.string()).fill_null(""))
    return pa.Table.from_arrays([*arrays, *candidates.columns], schema=readings_schema(spec))


def count_dispositions(dispositions: NDArray[np.uint8]) -> dict[Disposition, int]:
    """How many lines of a frame went where."""
    if not dispositions.any():
        return {Disposition.KEPT: len(dispositions)} | dict.fromkeys(_NOT_KEPT, 0)
    others = {kind: int(np.count_nonzero(dispositions == kind)) for kind in _NOT_KEPT}
    return {Disposition.KEPT: len(dispositions) - sum(others.values()), **others}
