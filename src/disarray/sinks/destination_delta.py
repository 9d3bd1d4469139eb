"""A Delta table of a destination: the months of a subject that changed are overwritten, each commit at most once.

The application transaction of a subject has the number of the commit that was loaded, so that whoever reads the log of
the table sees how far it is. A second one has the fence of the load: one that comes late is refused by it, or by the
table itself where two write at the same moment.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from disarray.errors import (
    DestinationConflictError,
    DestinationMisfitError,
    TargetFencedError,
)
from disarray.failpoints import failpoint
from disarray.model.description.destination import DeltaTarget
from disarray.model.segments import FIRST_US, datetime_of, microseconds_of
from disarray.sinks.destination_bucket_probe import refuse_careless_server
from disarray.sinks.destination_changes import END_US, EVERYTHING, WHOLE, Changes, Span, merged
from disarray.sinks.destination_database import UNTOUCHED, Loaded, fenced_message
from disarray.sinks.destination_deletes import NEVER_REFUSED, KeptShare, deletes_of, is_guarded
from disarray.sinks.destination_delta_log import TRIM_EVERY, trim_log
from disarray.sinks.destination_delta_store import open_store
from disarray.sinks.destination_shape import DATASET, MONTH, SUBJECT
from disarray.sinks.destination_survivors import Survivors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltalake import DeltaTable, Field

    from disarray.control.connections import Pool
    from disarray.control.destinations import LoadTurn
    from disarray.model.description.destination import Destination
    from disarray.sinks.destination_deletes import Deletes
    from disarray.sinks.destination_delta_store import DeltaStore
    from disarray.sinks.destination_rows import SubjectRows
    from disarray.sinks.destination_shape import Shape
    from disarray.sinks.destination_targets import Advance, ListUnasked

FENCE = "/fence"
# Files that no version of the last week names are deleted; readers of older versions are told so by the table.
_KEEP_HOURS = 168
_OUR_FILE = re.compile(f"{DATASET}=[^/]+/{MONTH}=[^/]+/part-[^/]+[.]parquet")
# How delta-rs begins to say that another version came first; what a disk refuses begins otherwise.
_CONFLICT = "Failed to commit transaction"


class _Stream:
    """Batches of tables as they are asked for. What goes wrong while they are made is told as what it is."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self.rows = 0
        self._tables = tables
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for table in self._tables:
                self.rows += table.num_rows
                yield from table.to_batches()
        except Exception as error:
            self._failure = error
            raise

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            # Delta and Arrow wrap it in an error of their own.
            if self._failure is not None:
                raise self._failure from None
            raise


@dataclass(frozen=True, slots=True)
class DeltaLoader:
    """Loads subjects into one Delta table."""

    destination: Destination
    shape: Shape
    pool: Pool
    most_deleted_percent: int = NEVER_REFUSED
    _checked: list[DeltaTable] = field(
        default_factory=list
    )  # as it was checked, for the load that comes next

    @property
    def store(self) -> DeltaStore:
        """Where the table lies, with keys as they are now."""
        assert isinstance(self.destination.target, DeltaTarget)
        return open_store(self.destination.target)

    @property
    def schema(self) -> pa.Schema:
        """Our columns after the two that the table is partitioned by."""
        return pa.schema([(DATASET, pa.string()), (MONTH, pa.string()), *self.shape.loaded])

    def prepare(self) -> None:
        """Make the table where there is none, add columns that are new, refuse one that does not fit."""
        from deltalake import Field, Schema
        from deltalake.exceptions import TableNotFoundError

        with self._errors() as store:
            refuse_careless_server(store)
            try:
                table = store.open()
            except TableNotFoundError:
                if not self.destination.creates:
                    raise DestinationMisfitError(
                        f"there is no {self.destination.target.shown}. Nothing was loaded. Say create = true"
                    ) from None
                table = store.create(self.schema, partition_by=[DATASET, MONTH])
            wanted = {each.name: each for each in Schema.from_arrow(self.schema).fields}
            found = {each.name: each for each in table.schema().fields}
            faults = [
                f"column {name} is {_type_name(found[name])}, and has to be {_type_name(each)}"
                for name, each in wanted.items()
                if name in found and found[name].type != each.type
            ]
            faults += [
                f"column {name} must not be null, and is not loaded"
                for name, each in found.items()
                if name not in wanted and not each.nullable
            ]
            if table.metadata().partition_columns != [DATASET, MONTH]:
                faults.append(f"it is not partitioned by {DATASET} and {MONTH}")
            if faults:
                raise DestinationMisfitError(
                    f"{self.destination.target.shown} does not fit. Nothing was loaded: {'; '.join(faults)}"
                )
            added = [
                Field(name, each.type, nullable=True) for name, each in wanted.items() if name not in found
            ]
            if added:
                table.alter.add_columns(added)
            self._checked[:] = [table]

    def load(self, turn: LoadTurn, rows: SubjectRows, *, advance: Advance) -> Loaded:
        """Overwrite the months that changed in one version of the table, and move the position after it."""
        loaded = self._overwrite(turn, rows) if rows.changes.spans else UNTOUCHED
        failpoint("destination.committed", about=self.destination.name)
        with self.pool.connection() as connection:
            advance(connection, loaded)
        return loaded

    def rows_of(self, subject_key: str, changes: Changes) -> pa.Table:
        """What the table has of a subject in some spans, in our columns."""
        with self._errors() as store:
            rows = self._rows_of(store.open(), subject_key, changes, self.schema)
            return rows.select(self.shape.loaded.names)

    def vacuum(self) -> int:
        """Merge small files of each month, and delete files that no version of the last week names; how many."""
        with self._errors() as store:
            table = store.open()
            table.optimize.compact()
            trim_log(store)
            # All that lies there, whatever the log still knows: it forgets a file that was replaced at its first
            # checkpoint after a week, and was never told of one whose load was killed.
            unnamed = table.vacuum(
                retention_hours=_KEEP_HOURS, dry_run=True, enforce_retention_duration=False, full=True
            )
            # Not what somebody else keeps below this folder.
            ours = [path for path in unnamed if _OUR_FILE.fullmatch(path)]
            for path in ours:
                store.delete(path)
            return len(ours)

    def count_deletes(self, list_unasked: ListUnasked) -> Deletes:
        """What a sweep would delete."""
        with self._errors() as store:
            rows, other_rows = self._count_rows(store.open())
        return deletes_of(rows, list_unasked(sorted(rows)), other_rows=other_rows)

    def sweep(self, fence: int, list_unasked: ListUnasked) -> None:
        """Delete what subjects have that are not asked for, and all of other datasets."""
        from deltalake import CommitProperties, Transaction

        dataset = self.destination.dataset.name
        with self._errors() as store:
            table = store.open()
            for subject_key in list_unasked(sorted(self._count_rows(table)[0])):
                # It may be asked for, and loaded, since; whoever loads it after this version conflicts with it.
                table.update_incremental()
                if not list_unasked([subject_key]):
                    continue
                # Who still loads it is refused.
                fenced = Transaction(f"{self._application(subject_key)}{FENCE}", fence)
                table.delete(
                    predicate_of(dataset, subject_key, WHOLE),
                    commit_properties=CommitProperties(app_transactions=[fenced]),
                )
            table.delete(f"{DATASET} <> {_quoted(dataset)}")

    def _count_rows(self, table: DeltaTable) -> tuple[Counter[str], int]:
        """How many rows the table has of each subject, and of other datasets; one batch of them in memory at a time."""
        found, others = Counter[str](), 0
        for batch in table.to_pyarrow_dataset().to_batches(columns=[DATASET, SUBJECT]):
            ours = batch.filter(pc.field(DATASET) == self.destination.dataset.name)
            others += batch.num_rows - ours.num_rows
            for each in ours.column(SUBJECT).value_counts().to_pylist():
                found[str(each["values"])] += each["counts"]
        return found, others

    def _application(self, subject_key: str) -> str:
        return f"disarray/{self.destination.name}/{self.destination.dataset.name}/{subject_key}"

    def _overwrite(self, turn: LoadTurn, rows: SubjectRows) -> Loaded:
        from deltalake import CommitProperties, Transaction, write_deltalake

        application = self._application(turn.subject_key)
        with self._errors() as store:
            # Looked at before the rows are: a version that somebody adds meanwhile is a conflict at the end.
            table = self._checked.pop() if self._checked else store.open()
            former = table.transaction_version(f"{application}{FENCE}") or 0
            if former > turn.fence:
                raise TargetFencedError(fenced_message(self.destination, turn, former), target_fence=former)
            changes = in_months(rows.changes) if turn.follows(former) else WHOLE
            if table.transaction_version(application) == turn.newest_seq and not (
                turn.is_whole_due or changes.is_whole
            ):
                return UNTOUCHED
            whole_months = replace(rows, changes=changes, kept=[])
            failpoint("destination.staged", about=self.destination.name)
            schema = self._whole_schema(table)
            survivors = None
            if is_guarded(turn, former, has_fences=True, percent=self.most_deleted_percent):
                survivors = self._survivors(table, turn)
            stream = _Stream(self._pieces(table, turn, whole_months, schema, survivors))
            with stream.own_errors():
                write_deltalake(
                    table,
                    pa.RecordBatchReader.from_batches(schema, stream),
                    mode="overwrite",
                    predicate=predicate_of(
                        self.destination.dataset.name, turn.subject_key, whole_months.changes
                    ),
                    commit_properties=CommitProperties(
                        custom_metadata={"subject_key": turn.subject_key, "commit_seq": str(turn.newest_seq)},
                        app_transactions=[
                            Transaction(application, turn.newest_seq),
                            Transaction(f"{application}{FENCE}", turn.fence),
                        ],
                    ),
                )
            failpoint("destination.merged", about=self.destination.name)
            if table.version() % TRIM_EVERY == 0:
                trim_log(store)
        return Loaded(stream.rows, 0, is_whole=changes.is_whole)

    def _survivors(self, table: DeltaTable, turn: LoadTurn) -> Survivors:
        is_subject = (pc.field(DATASET) == self.destination.dataset.name) & (
            pc.field(SUBJECT) == turn.subject_key
        )
        return Survivors(table.to_pyarrow_dataset(), is_subject, self.shape)

    def _whole_schema(self, table: DeltaTable) -> pa.Schema:
        """Our columns, and after them those that the table has got otherwise or from a former definition."""
        has = pa.schema(table.schema().to_arrow())
        return pa.schema([*self.schema, *(field for field in has if field.name not in self.schema.names)])

    def _pieces(
        self,
        table: DeltaTable,
        turn: LoadTurn,
        rows: SubjectRows,
        schema: pa.Schema,
        survivors: Survivors | None,
    ) -> Iterator[pa.Table]:
        before = survivors.count_all() if survivors is not None else 0
        for piece in rows:
            if survivors is not None and before:
                survivors.add(piece)
            yield self._with_months(piece, schema)
        # Of sealed segments is known only after all others.
        kept = self._kept_rows(table, turn, rows, schema)
        yield from kept
        if survivors is not None and before:
            survivors.end()
            stay = survivors.rows + sum(each.num_rows for each in kept)
            share = KeptShare(self.destination.name, turn.subject_key, before, self.most_deleted_percent)
            # Before the end of the rows: nothing is committed yet.
            share.check(before - stay)

    def _with_months(self, piece: pa.Table, schema: pa.Schema) -> pa.Table:
        months = pc.strftime(piece.column(self.shape.time), format="%Y-%m")
        constant = pa.repeat(self.destination.dataset.name, piece.num_rows)
        others = [pa.nulls(piece.num_rows, field.type) for field in list(schema)[len(self.schema) :]]
        return pa.table([constant, months, *piece.columns, *others], schema=schema)

    def _kept_rows(
        self, table: DeltaTable, turn: LoadTurn, rows: SubjectRows, schema: pa.Schema
    ) -> list[pa.Table]:
        """What the table has where readings are no longer kept: nobody could put it back."""
        if not rows.kept:
            return []
        has = self._rows_of(table, turn.subject_key, rows.changes, schema)
        spans = Changes(merged(rows.kept))
        instants = has.column(self.shape.time).cast(pa.int64()).to_pylist()
        return [has.filter(pa.array([spans.contains(at_us) for at_us in instants], pa.bool_()))]

    def _rows_of(self, table: DeltaTable, subject_key: str, changes: Changes, schema: pa.Schema) -> pa.Table:
        has = table.to_pyarrow_table(
            filters=[(DATASET, "=", self.destination.dataset.name), (SUBJECT, "=", subject_key)],
            columns=schema.names,
        ).cast(schema)
        if changes.is_whole:
            return has
        instants = has.column(self.shape.time).cast(pa.int64()).to_pylist()
        return has.filter(pa.array([changes.contains(at_us) for at_us in instants], pa.bool_()))

    @contextmanager
    def _errors(self) -> Iterator[DeltaStore]:
        from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError

        shown, store = self.destination.target.shown, self.store
        try:
            yield store
        except SchemaMismatchError as error:
            raise DestinationMisfitError(f"{shown} does not fit: {error}. Nothing was loaded") from error
        except (DeltaError, OSError) as error:
            if isinstance(error, CommitFailedError) and str(error).startswith(_CONFLICT):
                raise DestinationConflictError(
                    f"{shown} was written by somebody else at the same moment. Nothing was changed"
                ) from error
            # Not its cause: what a server says of a request may name the key.
            raise store.failure(error) from None


def _type_name(field: Field) -> str:
    return str(field.type).removeprefix('PrimitiveType("').removesuffix('")')


def in_months(changes: Changes) -> Changes:
    """The same changes, grown to whole months of UTC."""
    grown = [Span(_month_start(span.from_us), _month_end(span.to_us - 1)) for span in changes.spans]
    return Changes(merged(grown))


def predicate_of(dataset: str, subject_key: str, changes: Changes) -> str:
    """Which rows a load overwrites: all of the subject, or those of some months."""
    chosen = f"{DATASET} = {_quoted(dataset)} AND {SUBJECT} = {_quoted(subject_key)}"
    if changes.spans == (EVERYTHING,):
        return chosen
    months = []
    for span in changes.spans:
        limits = [f"{MONTH} >= '{_month(span.from_us)}'"]
        if span.to_us < END_US:
            limits.append(f"{MONTH} < '{_month(span.to_us)}'")
        months.append(f"({' AND '.join(limits)})")
    return f"{chosen} AND ({' OR '.join(months)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _month(at_us: int) -> str:
    return f"{datetime_of(at_us):%Y-%m}"


def _month_start(at_us: int) -> int:
    if at_us <= FIRST_US:
        return FIRST_US
    at = datetime_of(at_us)
    return max(microseconds_of(datetime(at.year, at.month, 1, tzinfo=UTC)), FIRST_US)


def _month_end(at_us: int) -> int:
    at = datetime_of(min(at_us, END_US - 1))
    # The year 9999 has no end that could be shown.
    if at.year >= 9998 and at.month == 12:
        return END_US
    following = datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC)
    return min(microseconds_of(following), END_US)
