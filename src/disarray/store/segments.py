"""Readings of one segment, from whichever store holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control import catalog
from disarray.errors import ReadingsGoneError
from disarray.model.segments import datetime_of
from disarray.store.contract import SegmentContent
from disarray.store.lake_readings import LakeReadings
from disarray.store.timescale import TableReadings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from disarray.model.fragments import FragmentEntry
    from disarray.store.contract import ReadingStore, SegmentReadings
    from disarray.store.lake import Lake


def look_up_segments(
    connection: Connection, dataset: Dataset, subject_key: str, *, segments: Iterable[int]
) -> dict[int, SegmentContent]:
    """What the catalog says about some segments; those without readings are left out."""
    wanted = sorted(set(segments))
    if not wanted:
        return {}
    entries = catalog.load_segments(
        connection, dataset.name, subject_key, from_us=wanted[0], to_us=wanted[-1]
    )
    by_start = {entry.segment_us: entry for entry in entries}
    grouped: dict[int, list[FragmentEntry]] = {start: [] for start in wanted if start in by_start}
    found = catalog.load_segment_fragments(connection, dataset.name, subject_key, segments=list(grouped))
    for fragment in catalog.with_arrivals(connection, dataset, found):
        grouped[fragment.segment_us].append(fragment)
    return {start: SegmentContent(by_start[start], tuple(fragments)) for start, fragments in grouped.items()}


def read_segment(
    connection: Connection,
    lake: Lake,
    dataset: Dataset,
    subject_key: str,
    *,
    content: SegmentContent,
    channels: Collection[str] | None = None,
) -> SegmentReadings:
    """Read a segment as it was looked up; of all channels, or of some alone.

    Rows of a table that changed since are not those that were looked up. The fragments that they came from still are.
    """
    entry = content.entry
    stores: list[ReadingStore] = (
        [] if entry.is_sealed else [TableReadings.of(connection, dataset), LakeReadings(lake, dataset)]
    )
    for store in stores:
        read = store.read(subject_key, content, channels)
        if read is not None:
            return read
    raise _gone(subject_key, content)


def read_fragments(
    lake: Lake, dataset: Dataset, subject_key: str, *, content: SegmentContent
) -> SegmentReadings:
    """Read a segment as it was looked up, from fragments alone: no database is asked."""
    read = LakeReadings(lake, dataset).read(subject_key, content)
    if read is None:
        raise _gone(subject_key, content)
    return read


def _gone(subject_key: str, content: SegmentContent) -> ReadingsGoneError:
    return ReadingsGoneError(
        f"the readings of {subject_key} from {datetime_of(content.entry.segment_us):%Y-%m-%dT%H:%MZ} on are no longer "
        "kept. The values at the ends of this segment are; ask for an instant outside of it"
    )
