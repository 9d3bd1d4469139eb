"""Readings in a table: a hypertable where TimescaleDB is at hand, monthly partitions where it is not."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from disarray.control import catalog, dimensions, readings
from disarray.control.snapshots import snapshot
from disarray.errors import TableChangedError
from disarray.failpoints import failpoint
from disarray.kernels.binary_copy import COPY_TYPES, HEADER, TRAILER
from disarray.kernels.scanning.table_rows import digest_rows, fact_schema, locals_from_rows, row_schema
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION
from disarray.model.description.readings_table import (
    CHANNEL_COLUMN,
    EVENT_AT,
    ORDINAL,
    POSITION_COLUMN,
    SEGMENT_US,
    SOURCE_ID,
    SUBJECT_KEY,
    readings_table,
)
from disarray.store.contract import SegmentReadings
from disarray.store.staged_facts import fact_pieces, staged_values
from disarray.store.staging import staged_pieces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder
    from disarray.kernels.scanning.running_values import Locals
    from disarray.model.description.dataset import Dataset, Store
    from disarray.model.description.metrics import Metric
    from disarray.model.description.readings_table import ReadingsTable
    from disarray.store.contract import SegmentContent
    from disarray.store.staging import StagedRows

# A statement copies no more rows than a session has time for, see SessionLimits.
COPIED_AT_ONCE = 1_000_000
# And numbers no more values.
NUMBERED_AT_ONCE = 10_000
# What the question already says, or the order of the answer.
_NOT_READ = frozenset({SEGMENT_US, ORDINAL, SUBJECT_KEY})

Numbers = dict[str, dict[str, int]]  # that stand for the values of dimensions, by column


@dataclass(frozen=True, slots=True)
class TableReadings:
    """A dataset whose readings that count lie in `telemetry.<dataset>`, with their folds beside them."""

    connection: Connection
    dataset: Dataset
    table: ReadingsTable

    @classmethod
    def of(cls, connection: Connection, dataset: Dataset) -> TableReadings:
        """The table of a dataset."""
        return cls(connection, dataset, readings_table(dataset))

    def read(
        self, subject_key: str, content: SegmentContent, channels: Collection[str] | None = None
    ) -> SegmentReadings | None:
        """The rows of a segment; None where the table has none, or where they changed since they were looked up."""
        if content.entry.table_digest is None:
            return None
        rows = self.rows(subject_key, content, channels)
        return None if rows is None else self.readings(rows)

    def rows(
        self, subject_key: str, content: SegmentContent, channels: Collection[str] | None = None
    ) -> pa.Table | None:
        """As `read`, the rows themselves."""
        segment_us = content.entry.segment_us
        schema = row_schema(self.table)
        names = [name for name in schema.names if name not in _NOT_READ]
        with snapshot(self.connection):
            found = catalog.load_segments(
                self.connection, self.dataset.name, subject_key, from_us=segment_us, to_us=segment_us
            )
            if [entry.revision for entry in found] != [content.entry.revision]:
                return None
            relation = dimensions.rows_relation(self.connection, self.dataset.name)
            if relation is None:
                return None
            text = readings.copy_out(
                self.connection,
                self.table,
                subject_key,
                relation=relation,
                segment_us=segment_us,
                columns=names,
                channels=channels,
            )
        return _parsed(text, [(name, schema.field(name).type) for name in names])

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
        """Delete what is no longer true of these segments and copy in what the table lacks."""
        types = readings.clear_rows(
            connection,
            self.table.dataset,
            subject_key,
            holder,
            fence=fence,
            store=planned_on,
            # Rows that only come after those which are there need no look at them.
            kept_of={
                segment: 0 if staged is None else staged.kept
                for segment, staged in changed.items()
                if staged is None or staged.replaces
            },
        )
        failpoint("commit.rows_cleared", connection, about=subject_key)
        added = [staged for staged in changed.values() if staged is not None and staged.added]
        if added:
            _refuse_other_columns(self.table, types)
        numbers: Numbers = {}
        if self.table.dimensions and added:
            numbers = _number_values(connection, self.table, added)
            failpoint("commit.values_numbered", connection, about=subject_key)
        batch: list[StagedRows] = []
        for staged in added:
            batch.append(staged)
            if sum(each.added for each in batch) >= COPIED_AT_ONCE:
                _copy(connection, self.table, batch, numbers)
                batch = []
        if batch:
            _copy(connection, self.table, batch, numbers)
        failpoint("commit.rows_copied", connection, about=subject_key)

    def readings(self, rows: pa.Table) -> SegmentReadings:
        """What `read` makes of rows."""
        own = [(EVENT_US, rows.column(EVENT_AT).cast(pa.int64())), (POSITION, rows.column(POSITION_COLUMN))]
        if self.dataset.channel is not None:
            own.append((CHANNEL, rows.column(CHANNEL_COLUMN)))
        own += [(column.column, rows.column(column.name)) for column in self.table.columns]
        encoded = rows.column(CHANNEL_COLUMN).combine_chunks().dictionary_encode()
        by_name = pc.sort_indices(encoded.dictionary).to_numpy()
        rank = np.empty(len(by_name), dtype=np.int64)
        rank[by_name] = np.arange(len(by_name))
        columns = {metric.metric: metric for metric in self.table.metrics}

        def locals_of(metric: Metric) -> Locals:
            return locals_from_rows(rows, columns[metric.name], metric)

        return SegmentReadings(
            readings=pa.table([column for _, column in own], names=[name for name, _ in own]),
            source_uris=self._uris(rows),
            channels=tuple(encoded.dictionary.take(pa.array(by_name)).to_pylist()),
            channel=rank[encoded.indices.to_numpy()],
            locals_of=locals_of,
        )

    def digest(self, rows: pa.Table) -> str | None:
        """What the catalog keeps of a segment that has these rows."""
        if not rows.num_rows:
            return None
        uris = self._uris(rows).dictionary_encode()
        return digest_rows(rows, uris.dictionary.to_pylist(), uris.indices.to_numpy())

    def _uris(self, rows: pa.Table) -> pa.Array[pa.StringScalar]:
        encoded = rows.column(SOURCE_ID).combine_chunks().dictionary_encode()
        ids = encoded.dictionary.to_pylist()
        names = readings.name_sources(self.connection, ids)
        return pa.array([names[number] for number in ids], pa.string()).take(encoded.indices)


def _refuse_other_columns(table: ReadingsTable, types: Mapping[str, str]) -> None:
    wrong = [field.name for field in fact_schema(table) if types.get(field.name) != COPY_TYPES[field.type]]
    if wrong:
        raise TableChangedError(
            f"telemetry.{table.name} has not the columns of dataset '{table.dataset}': {', '.join(wrong)} differ. "
            "Nothing was written. Let all workers have the same disarray.toml, and start this one again"
        )


def _number_values(connection: Connection, table: ReadingsTable, added: Sequence[StagedRows]) -> Numbers:
    """The numbers of all values that rows name, given out inside the transaction if need be.

    All of a commit at once: the order in which values are taken is what keeps two commits from waiting for each other.
    """
    numbers: Numbers = {}
    for name, values in staged_values(added, table).items():
        numbers[name] = {}
        for start in range(0, len(values), NUMBERED_AT_ONCE):
            asked = values[start : start + NUMBERED_AT_ONCE]
            given = dimensions.number_values(connection, table.dataset, name, asked)
            numbers[name].update(zip(asked, given, strict=True))
    return numbers


def _copy(
    connection: Connection, table: ReadingsTable, batch: Sequence[StagedRows], numbers: Numbers
) -> None:
    def pieces() -> Iterator[bytes]:
        yield HEADER
        for staged in batch:
            yield from fact_pieces(staged, table, numbers) if table.dimensions else staged_pieces(staged)
        yield TRAILER

    readings.copy_in(connection, table.name, fact_schema(table).names, pieces())


def _parsed(text: bytes, fields: Sequence[tuple[str, pa.DataType]]) -> pa.Table:
    schema = pa.schema(fields)
    if not text:
        return schema.empty_table()
    instants = {name for name, kind in fields if name == EVENT_AT}
    table = pa_csv.read_csv(
        io.BytesIO(text),
        read_options=pa_csv.ReadOptions(column_names=schema.names, use_threads=False, block_size=1 << 28),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types={name: pa.int64() if name in instants else kind for name, kind in fields},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
            check_utf8=False,
        ),
    )
    return table.cast(schema)
