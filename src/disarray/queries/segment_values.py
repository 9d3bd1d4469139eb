"""Values between the readings of a segment, folded again by the kernels that scanned it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.kernels.scanning.running_values import Base, values_from
from disarray.model.description.format import EVENT_US
from disarray.store.segments import read_segment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.control.values import Number
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric
    from disarray.queries.bases import ChannelSegment, WantedValue
    from disarray.store.contract import SegmentContent, SegmentReadings
    from disarray.store.lake import Lake


def base_of(segment: ChannelSegment) -> Base:
    """What the fold within a segment is added to."""
    return Base(segment.head.before, segment.head.base)


def fold_inside(
    connection: Connection,
    lake: Lake,
    dataset: Dataset,
    subject_key: str,
    *,
    metric: Metric,
    inside: Sequence[WantedValue],
    contents: dict[int, SegmentContent],
) -> dict[tuple[str, int], tuple[Number | None, int]]:
    """Values between the readings of a segment, each segment read once."""
    by_segment: dict[int, list[WantedValue]] = defaultdict(list)
    for each in inside:
        by_segment[each.segment.head.segment_us].append(each)
    found: dict[tuple[str, int], tuple[Number | None, int]] = {}
    for segment_us, group in by_segment.items():
        bases = {each.channel: base_of(each.segment) for each in group}
        read = read_segment(
            connection, lake, dataset, subject_key, content=contents[segment_us], channels=bases
        )
        event_us = read.readings.column(EVENT_US).to_numpy()
        numbers = values_by_reading(read, metric, bases)
        places = {channel: read.indices(channel) for channel in bases}
        for each in group:
            own = places[each.channel]
            after = int(np.searchsorted(event_us[own], each.at_us, side="right"))
            if not after:
                found[each.channel, each.at_us] = each.segment.head.before, each.at_us
            else:
                last = int(own[after - 1])
                found[each.channel, each.at_us] = numbers[last].as_py(), int(event_us[last])
    return found


def values_by_reading(read: SegmentReadings, metric: Metric, bases: Mapping[str, Base]) -> pa.Array[Any]:
    """The metric at every reading in canonical order; NULL for channels whose base is not known yet."""
    unknown = (
        set()
        if metric.kind.is_extreme
        else {channel for channel in read.channels if bases[channel].base is None}
    )
    own = [Base(0, 0) if channel in unknown else bases[channel] for channel in read.channels]
    values = values_from(read.locals_of(metric), metric, own, read.channel)
    if not unknown:
        return values
    is_unknown = np.array([channel in unknown for channel in read.channels], dtype=np.bool_)
    return pc.if_else(pa.array(is_unknown[read.channel]), pa.scalar(None, values.type), values)
