"""Readings out of the lake: merged and folded here and now by the kernels that scanned them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from disarray.errors import FragmentReadError, ReadingsGoneError
from disarray.kernels.fragments.fragment_reader import FragmentReader
from disarray.kernels.scanning.folds import fold_metric
from disarray.kernels.scanning.merging import merge_fragments
from disarray.kernels.scanning.running_values import local_values
from disarray.kernels.scanning.segment_scan import series_of
from disarray.kernels.scanning.table_rows import uri_of
from disarray.model.description.format import CHANNEL
from disarray.model.description.scan_spec import scan_spec_of
from disarray.model.scan_units import scan_unit
from disarray.model.segments import Segment
from disarray.store.contract import SegmentReadings
from disarray.store.fragments import fragment_inputs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder
    from disarray.kernels.scanning.merging import Merged
    from disarray.kernels.scanning.segment_rows import FragmentInput
    from disarray.model.description.dataset import Dataset, Store
    from disarray.model.fragments import FragmentEntry
    from disarray.store.contract import SegmentContent
    from disarray.store.lake import Lake
    from disarray.store.staging import StagedRows


@dataclass(frozen=True, slots=True)
class LakeReadings:
    """A dataset whose readings are made from its fragments whenever they are asked for."""

    lake: Lake
    dataset: Dataset
    reader: FragmentReader | None = (
        None  # of whoever reads many segments: a file's footer is parsed once, not for each
    )

    def read(
        self, subject_key: str, content: SegmentContent, channels: Collection[str] | None = None
    ) -> SegmentReadings | None:
        """Merge the fragments; None where none are kept. Fragments never change: what was looked up stays readable."""
        if not content.fragments:
            return None
        entry, dataset = content.entry, self.dataset
        segment = Segment(entry.segment_us, entry.segment_us + dataset.segment_length_us)
        unit = scan_unit(entry.segment_us, entry.revision, content.fragments)
        spec = scan_spec_of(dataset, subject_key)
        merged = merge_fragments(self._inputs(unit.fragments, subject_key), spec)
        if channels is not None and spec.has_channel:
            # Winners are chosen within a channel and folds run along one: the others can be left out afterwards.
            merged = _only(merged, channels)
        series = series_of(segment, merged, spec)
        names = pa.array([uri_of(key) for key in merged.uris], pa.string())
        return SegmentReadings(
            readings=merged.readings,
            source_uris=names.take(pa.array(merged.sources)),
            channels=series.channels,
            channel=series.channel_by_reading,
            locals_of=lambda metric: local_values(series, fold_metric(series, metric)),
            conflict_pairs=tuple(
                (uri_of(winner), uri_of(loser), count) for winner, loser, count in merged.conflict_pairs
            ),
        )

    def write(
        self,
        connection: Connection,
        subject_key: str,
        changed: Mapping[int, StagedRows | None],
        *,
        planned_on: Store,
        holder: Holder,
        fence: int,
    ) -> None:
        """Nothing: fragments are in the lake before a commit names them."""

    def _inputs(self, fragments: Sequence[FragmentEntry], subject_key: str) -> list[FragmentInput]:
        try:
            with nullcontext(self.reader) if self.reader is not None else FragmentReader() as reader:
                return fragment_inputs(
                    reader,
                    fragments,
                    self.lake.absolute,
                    subject_key=subject_key,
                )
        except FragmentReadError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise ReadingsGoneError(
                    f"a file of the lake at {self.lake.root} is not there: {error.__cause__}. The stored numbers are "
                    "untouched. Ask again: what takes longer than files are kept for readers "
                    "(housekeeping.vacuum_after) finds them gone. If that does not help, check that the lake is where "
                    "the configuration says, and mounted; `disarray audit` lists what is missing"
                ) from error
            raise


def _only(merged: Merged, channels: Collection[str]) -> Merged:
    wanted = pc.is_in(merged.readings.column(CHANNEL), value_set=pa.array(sorted(channels), pa.string()))
    mask = wanted.combine_chunks().to_numpy(zero_copy_only=False)
    return replace(merged, readings=merged.readings.filter(wanted), sources=merged.sources[mask])
