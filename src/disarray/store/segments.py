"""Readings of one segment, merged and folded here and now by the kernels that scanned it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from disarray.control import catalog
from disarray.errors import DefinitionChangedError, ReadingsGoneError
from disarray.kernels.merging import merge_fragments
from disarray.kernels.scanning import series_of
from disarray.model.format import CHANNEL
from disarray.model.plan import scan_unit
from disarray.model.scan_spec import scan_spec_of
from disarray.model.segments import Segment, datetime_of
from disarray.store.fragments import fragment_input

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from disarray.control.catalog import SegmentEntry
    from disarray.control.connections import Connection
    from disarray.kernels.merging import Merged
    from disarray.kernels.segment_rows import FragmentInput
    from disarray.kernels.series import Series
    from disarray.model.dataset import Dataset
    from disarray.model.plan import FragmentEntry
    from disarray.store.lake import Lake


@dataclass(frozen=True, slots=True)
class SegmentContent:
    """A segment as the catalog had it in one snapshot: what to read, without having read it."""

    entry: SegmentEntry
    fragments: tuple[FragmentEntry, ...]


@dataclass(frozen=True, slots=True)
class SegmentReadings:
    """The readings of a segment that count, in canonical order."""

    merged: Merged
    series: Series


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
    for fragment in catalog.load_segment_fragments(
        connection, dataset.name, subject_key, segments=list(grouped)
    ):
        grouped[fragment.segment_us].append(fragment)
    return {start: SegmentContent(by_start[start], tuple(fragments)) for start, fragments in grouped.items()}


def read_segment(
    lake: Lake,
    dataset: Dataset,
    subject_key: str,
    *,
    content: SegmentContent,
    channels: Collection[str] | None = None,
) -> SegmentReadings:
    """Read a segment from the lake; of all channels, or of some alone."""
    entry = content.entry
    if entry.scan_version != dataset.scan_version:
        raise DefinitionChangedError(
            f"the readings of {subject_key} from {datetime_of(entry.segment_us):%Y-%m-%dT%H:%MZ} on were last folded "
            f"under another definition of dataset '{dataset.name}'. The stored numbers are those of before; "
            "values inside this segment can be had once it is rebuilt"
        )
    if not content.fragments:
        raise ReadingsGoneError(
            f"the readings of {subject_key} from {datetime_of(entry.segment_us):%Y-%m-%dT%H:%MZ} on are no longer "
            "kept. The values at the ends of this segment are; ask for an instant outside of it"
        )
    segment = Segment(entry.segment_us, entry.segment_us + dataset.segment_us)
    unit = scan_unit(entry.segment_us, entry.revision, content.fragments)
    spec = scan_spec_of(dataset, subject_key)
    merged = merge_fragments(_inputs(lake, unit.fragments, dataset), spec)
    if channels is not None and spec.has_channel:
        # Winners are chosen within a channel and folds run along one: the others can be left out afterwards.
        merged = _only(merged, channels)
    return SegmentReadings(merged, series_of(segment, merged, spec))


def _only(merged: Merged, channels: Collection[str]) -> Merged:
    wanted = pc.is_in(merged.readings.column(CHANNEL), value_set=pa.array(sorted(channels), pa.string()))
    mask = wanted.combine_chunks().to_numpy(zero_copy_only=False)
    return replace(merged, readings=merged.readings.filter(wanted), sources=merged.sources[mask])


def _inputs(lake: Lake, fragments: Sequence[FragmentEntry], dataset: Dataset) -> list[FragmentInput]:
    try:
        return [
            fragment_input(fragment, lake.absolute(fragment.path), priority=dataset.priority)
            for fragment in fragments
        ]
    except OSError as error:
        raise ReadingsGoneError(
            f"a file of the lake at {lake.root} cannot be read: {error}. The stored numbers are untouched; check that "
            "the lake is where the configuration says, and mounted"
        ) from error
