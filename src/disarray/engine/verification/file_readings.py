"""Readings of a range of segments, file by file: what the source says, held against what the lake keeps."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from disarray.engine.verification.comparison import Difference, exact_bits
from disarray.engine.verification.scratch import ScratchReader
from disarray.errors import FragmentReadError
from disarray.kernels.fragments.fragment_reader import FragmentReader
from disarray.model.description.format import EVENT_US, POSITION
from disarray.store.fragments import read_own_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from disarray.engine.verification.scratch import SourceSlice
    from disarray.model.description.dataset import Dataset
    from disarray.model.fragments import FragmentEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one generation of one file says about one segment; where it is not proven, the lake alone tells."""

    source_uri: str
    generation: int
    content_hash: str
    arrival: int
    is_proven: bool
    segment_us: int
    slices: tuple[SourceSlice, ...]
    fragments: tuple[tuple[FragmentEntry, str], ...]  # with their paths


class FileReadings:
    """The readings of one range after the other."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._scratch = ScratchReader()
        self._counted: list[tuple[Contribution, pa.Table]] = []

    def load(
        self, contributions: Sequence[Contribution], *, dataset: Dataset, subject_key: str
    ) -> list[Difference]:
        """Read what a range is made of; where source and lake disagree is told."""
        self._counted = []
        found: list[Difference] = []
        misplaced: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])

        def note(what: str, segment_us: int, uri: str, stored: str, recomputed: str) -> None:
            found.append(
                Difference(
                    dataset=dataset.name,
                    subject_key=subject_key,
                    what=what,
                    name=uri,
                    channel="",
                    segment_us=segment_us,
                    stored=stored,
                    recomputed=recomputed,
                )
            )

        with FragmentReader() as reader:
            for each in contributions:
                lake, failures = self._lake(reader, each)
                for failure in failures:
                    note("fragment", each.segment_us, each.source_uri, failure, "readable")
                source = self._source(each) if each.is_proven else lake
                if source.num_rows:
                    self._counted.append((each, source))
                if each.is_proven:
                    for own_us, only_source, only_lake in _misplaced(source, lake, dataset.segment_length_us):
                        counts = misplaced[own_us, each.source_uri]
                        counts[0] += only_source
                        counts[1] += only_lake
        for (segment_us, uri), (only_source, only_lake) in misplaced.items():
            note(
                "readings",
                segment_us,
                uri,
                f"{only_lake} that its source has not",
                f"{only_source} that the lake has not",
            )
        return found

    def marks(self) -> list[Contribution]:
        """One contribution of each generation of each file, in the order of uris by their bytes."""
        by_file = {(each.source_uri.encode(), each.generation): each for each, _ in self._counted}
        return [by_file[key] for key in sorted(by_file)]

    def readings(self) -> tuple[pa.Table, NDArray[np.int64]]:
        """All readings, by segment, and the number of the file of each, among the marks."""
        number_of = {(mark.source_uri, mark.generation): number for number, mark in enumerate(self.marks())}
        ordered = sorted(
            self._counted,
            key=lambda pair: (pair[0].segment_us, number_of[pair[0].source_uri, pair[0].generation]),
        )
        table = pa.concat_tables([self._schema.empty_table(), *(table for _, table in ordered)])
        numbers = [
            np.full(table.num_rows, number_of[each.source_uri, each.generation]) for each, table in ordered
        ]
        return table.combine_chunks(), np.concatenate([np.zeros(0, dtype=np.int64), *numbers])

    def _source(self, contribution: Contribution) -> pa.Table:
        tables = [self._scratch.read(each) for each in contribution.slices]
        return pa.concat_tables([self._schema.empty_table(), *tables])

    def _lake(self, reader: FragmentReader, contribution: Contribution) -> tuple[pa.Table, list[str]]:
        tables, failures = [self._schema.empty_table()], []
        for fragment, path in contribution.fragments:
            try:
                table = read_own_rows(reader, path, fragment)
            except (OSError, FragmentReadError, pa.ArrowException) as error:
                failures.append(" ".join(f"{fragment.path}: {error}".split())[:200])
                continue
            if fragment.cut_position is not None:
                counts = table.column(POSITION).to_numpy() < fragment.cut_position
                table = table.filter(pa.array(counts))
            tables.append(table.select(self._schema.names).cast(self._schema))
        return pa.concat_tables(tables), failures


def _misplaced(source: pa.Table, lake: pa.Table, length_us: int) -> Iterator[tuple[int, int, int]]:
    """By segment: readings that the source has and the lake has not, and the other way round."""
    source, lake = exact_bits(source), exact_bits(lake)
    if source.equals(lake):
        return
    if source.num_rows == lake.num_rows and _by_position(source).equals(_by_position(lake)):
        return
    balance = Counter(_rows(source))
    balance.subtract(_rows(lake))
    found: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    place = source.schema.get_field_index(EVENT_US)
    for row, count in balance.items():
        if count:
            found[row[place] // length_us * length_us][0 if count > 0 else 1] += abs(count)
    for segment_us, (only_source, only_lake) in found.items():
        yield segment_us, only_source, only_lake


def _by_position(table: pa.Table) -> pa.Table:
    order = np.argsort(table.column(POSITION).to_numpy(), kind="stable")
    return table.take(pa.array(order)).combine_chunks()


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
