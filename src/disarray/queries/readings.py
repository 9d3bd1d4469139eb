"""Readings with the value of every metric beside them, segment after segment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from disarray.control import catalog, values
from disarray.control.snapshots import snapshot
from disarray.kernels.parsing.columns import ARROW_TYPES
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION
from disarray.model.segments import FIRST_US, LAST_US, microseconds_of, segment_start
from disarray.queries.bases import by_channel
from disarray.queries.segment_values import base_of, values_by_reading
from disarray.store.definitions import assert_made_under
from disarray.store.segments import look_up_segments, read_fragments, read_segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection
    from disarray.kernels.scanning.running_values import Base
    from disarray.model.description.dataset import Dataset
    from disarray.store.contract import SegmentContent, SegmentReadings
    from disarray.store.lake import Lake

INSTANT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Readings:
    """What to read of a subject, looked up in one moment; the readings themselves come one segment at a time."""

    connection: Connection | None  # None: fragments alone are read, see `detached`
    lake: Lake
    dataset: Dataset
    subject_key: str
    from_us: int
    to_us: int
    contents: dict[int, SegmentContent]
    bases: dict[str, dict[int, dict[str, Base]]]  # metric → segment → channel
    stale_from_us: int | None
    sealed_segments: int = 0  # in the span; their readings are no longer kept

    def __iter__(self) -> Iterator[pa.Table]:
        """Tables of `readings_with_values_schema`, in canonical order; no more than a segment is held in memory."""
        for segment_us, content in sorted(self.contents.items()):
            read = self._read(content)
            table = self._with_values(read, segment_us)
            event_us = read.readings.column(EVENT_US).to_numpy()
            first, end = np.searchsorted(event_us, [self.from_us, self.to_us])
            yield table.slice(int(first), int(end - first))

    def detached(self, from_us: int, to_us: int) -> Readings:
        """A part of it that can be read where there is no connection, in a task of Spark."""
        length_us = self.dataset.segment_length_us
        inside = {
            segment_us: content
            for segment_us, content in self.contents.items()
            if segment_us < to_us and segment_us + length_us > from_us
        }
        return replace(self, connection=None, from_us=from_us, to_us=to_us, contents=inside)

    def _read(self, content: SegmentContent) -> SegmentReadings:
        if self.connection is None:
            return read_fragments(self.lake, self.dataset, self.subject_key, content=content)
        return read_segment(self.connection, self.lake, self.dataset, self.subject_key, content=content)

    def _with_values(self, read: SegmentReadings, segment_us: int) -> pa.Table:
        table, rows = read.readings, read.readings.num_rows
        columns: list[Any] = [
            pa.repeat(self.subject_key, rows),
            table.column(EVENT_US).cast(INSTANT),
            table.column(CHANNEL) if CHANNEL in table.column_names else pa.repeat("", rows),
            *(table.column(column.name) for column in self.dataset.columns),
            *(
                values_by_reading(read, metric, self.bases[metric.name][segment_us])
                for metric in self.dataset.metrics
            ),
            read.source_uris,
            table.column(POSITION),
        ]
        return pa.table(columns, schema=readings_with_values_schema(self.dataset))


def readings_with_values_schema(dataset: Dataset) -> pa.Schema:
    """The declared columns, then the metrics, between who and when and where from.

    A metric that shares its name with a column has `_total` after it.
    """
    taken = {column.name for column in dataset.columns}
    fields = [("subject_key", pa.string()), ("event_time", INSTANT), ("channel", pa.string())]
    fields += [(column.name, ARROW_TYPES[column.type]) for column in dataset.columns]
    fields += [
        (f"{metric.name}_total" if metric.name in taken else metric.name, ARROW_TYPES[metric.type])
        for metric in dataset.metrics
    ]
    return pa.schema([*fields, ("source_uri", pa.string()), ("position", pa.int64())])


def readings(
    connection: Connection,
    lake: Lake,
    *,
    dataset: Dataset,
    subject_key: str,
    from_us: int = FIRST_US,
    to_us: int = LAST_US,
) -> Readings:
    """The readings in [from_us, to_us) with running values. What is looked up here stays readable, see `snapshot`."""
    first_us = segment_start(from_us, dataset.segment_length_us)
    with snapshot(connection):
        assert_made_under(connection, dataset, subject_key)
        stale_from = values.stale_from(connection, dataset.name, subject_key)
        entries = catalog.load_segments(
            connection, dataset.name, subject_key, from_us=first_us, to_us=to_us - 1
        )
        kept = [entry.segment_us for entry in entries if not entry.is_sealed]
        contents = look_up_segments(connection, dataset, subject_key, segments=kept)
        bases = {
            metric.name: _bases_by_segment(connection, dataset, subject_key, metric.name, first_us, to_us)
            for metric in dataset.metrics
        }
    return Readings(
        connection,
        lake,
        dataset,
        subject_key,
        from_us,
        to_us,
        contents,
        bases,
        None if stale_from is None else microseconds_of(stale_from),
        len(entries) - len(kept),
    )


def _bases_by_segment(
    connection: Connection, dataset: Dataset, subject_key: str, metric: str, from_us: int, to_us: int
) -> dict[int, dict[str, Base]]:
    pieces = values.load_bases(
        connection, dataset.name, subject_key, metric=metric, from_us=from_us, to_us=to_us
    )
    found: dict[int, dict[str, Base]] = {}
    for channel, segments in by_channel(pieces).items():
        for segment in segments:
            found.setdefault(segment.head.segment_us, {})[channel] = base_of(segment)
    return found
