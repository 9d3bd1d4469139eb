"""The kind `update`: columns of a user's own table are computed in chunks, and nobody's change is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.backfill.arrow_function import apply_function, expected_hashes, load_function, table_of
from disarray.backfill.kind import ChunkCheck, Extent
from disarray.backfill.table_layout import refuse_altered, refuse_unfit
from disarray.backfill.user_database.session import load_layout
from disarray.backfill.user_database.table import RowsRead, Stretch, UserTable
from disarray.control.backfill_chunks import ChunkResult
from disarray.errors import BackfillChunkError, BackfillTargetError
from disarray.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from disarray.backfill.description import UpdateSpec
    from disarray.backfill.kind import Cut
    from disarray.control.backfill_chunks import ChunkRecord, HeldChunk
    from disarray.control.connections import Connection

# How often rows that somebody keeps changing are read again before they are locked to be read.
_UNLOCKED_ROUNDS = 3
# Fewer are counted; of more the estimate of the server is near enough.
_COUNTED_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class _Computed:
    """Values for rows as they were read."""

    rows: RowsRead
    values: list[list[object]]


@dataclass(frozen=True)
class UpdateKind:
    """At work on the table of one job."""

    spec: UpdateSpec
    table: UserTable
    function: Callable[[pa.Table], pa.Table] | None

    @property
    def can_be_undone(self) -> bool:
        """What it writes is rolled back with its transaction."""
        return True

    def extent(self, connection: Connection) -> Extent:
        """Its greatest cursor, and how many rows there are."""
        layout = self.table.layout
        if self.table.has_null_cursor(connection):
            raise BackfillTargetError(
                f"rows of {layout.schema}.{layout.table} have no cursor ({', '.join(self.spec.source.cursor)} is "
                "NULL): no chunk would reach them. Nothing was changed. Give them one, or name other columns as "
                "source.cursor_column"
            )
        is_estimate = layout.rows_estimated > _COUNTED_ROWS
        return Extent(
            last=self.table.last_cursor(connection),
            rows=layout.rows_estimated if is_estimate else self.table.count(connection),
            is_estimate=is_estimate,
            bytes=layout.bytes,
        )

    def cut(
        self, connection: Connection, after: Sequence[str] | None, *, end: Sequence[str], rows: int
    ) -> Cut:
        """The next chunk behind a cursor; refused where the table was altered."""
        refuse_altered(self.table.layout, load_layout(connection, self.spec.source.table), self.spec)
        return self.table.cut(connection, after, end=end, rows=rows)

    def read(self, connection: Connection, chunk: HeldChunk) -> object:
        """Rows with their versions, and what the function makes of them; expressions need nothing beforehand."""
        if self.function is None:
            return None
        rows = self.table.read_rows(connection, _stretch(chunk))
        return self._computed(self.function, rows)

    def write(self, connection: Connection, chunk: HeldChunk, known: object) -> ChunkResult:
        """Set the columns of the rows of a chunk, and measure the stretch as it is then."""
        self.table.limit_lock_waits(connection)
        if isinstance(known, _Computed):
            written, read_again = self._write_computed(connection, known)
        else:
            written, read_again = self.table.update_rows(connection, _stretch(chunk)), 0
        measured = self.table.measure(connection, _stretch(chunk))
        return ChunkResult(
            rows_written=written,
            rows_read_again=read_again,
            rows_after=measured.rows,
            checksum=measured.checksum,
            # Only the sample of a plan may have written nothing.
            written_xid=measured.own_xid or measured.oldest_xid,
            oldest_xid=measured.oldest_xid,
        )

    def answer(self, connection: Connection) -> Any:
        """What the user's checksum_query answers now."""
        query = self.spec.verification.checksum_query
        return None if query is None else self.table.answer(connection, query)

    def verify(self, connection: Connection, chunk: ChunkRecord) -> ChunkCheck:
        """Compare the stretch of a chunk with what it was right after it was written."""
        assert chunk.rows_after is not None
        assert chunk.written_xid is not None
        stretch = Stretch(
            None if chunk.cursor_from is None else tuple(chunk.cursor_from), tuple(chunk.cursor_to)
        )
        now = self.table.measure(connection, stretch)
        is_same = (now.rows, now.checksum) == (chunk.rows_after, chunk.checksum)
        # What follows from the expressions matters where something changed; what the user asked for always does.
        check = self.spec.verification.check if is_same else self.spec.row_check
        broken = None if check is None else self.table.breaking(connection, stretch, check)
        if broken:
            sentence = f"{broken} rows do not hold what a transformed row holds"
            return ChunkCheck(rows=now.rows, failed=(sentence,))
        if is_same:
            return ChunkCheck(rows=now.rows)
        changed = self.table.changed_since(
            connection,
            stretch,
            own_xid=chunk.written_xid,
            oldest_xid=chunk.oldest_xid or chunk.written_xid,
        )
        if not changed and now.rows >= chunk.rows_after:
            sentence = "its rows are not those that were written, and nobody changed them since"
            return ChunkCheck(rows=now.rows, failed=(sentence,))
        if broken == 0 and now.rows >= chunk.rows_after:
            # Changed by others, and every row holds what a transformed row holds.
            return ChunkCheck(rows=now.rows, rows_changed_since=changed)
        there = f"{now.rows} of {chunk.rows_after} rows are there"
        sentence = f"{changed} rows were changed since by somebody else, {there}"
        return ChunkCheck(rows=now.rows, changed=(sentence,), rows_changed_since=changed)

    def _computed(self, function: Callable[[pa.Table], pa.Table], rows: RowsRead) -> _Computed:
        columns = [self.table.layout.column(name) for name in self.spec.update.columns]
        given = table_of(rows, columns)
        return _Computed(rows, apply_function(function, given, self.table.set_columns))

    def _write_computed(self, connection: Connection, computed: _Computed) -> tuple[int, int]:
        """Write what still has the version that it was computed from; the rest is read again and computed anew."""
        assert self.function is not None
        written = read_again = 0
        for round_no in range(_UNLOCKED_ROUNDS + 1):
            if not computed.rows.keys:
                return written, read_again
            hashes = self.table.write_rows(
                connection, computed.rows.keys, computed.rows.versions, computed.values
            )
            self._refuse_other_values(computed, hashes)
            written += len(hashes)
            left = [key for key in computed.rows.keys if key not in hashes]
            if not left:
                return written, read_again
            failpoint("backfill.reading_again", connection)
            # In the last round they are locked: whoever changes them waits, and what is read is what is written over.
            rows = self.table.read_again(connection, left, lock=round_no == _UNLOCKED_ROUNDS - 1)
            read_again += len(rows.keys)
            computed = self._computed(self.function, rows)
        raise BackfillChunkError("rows that were locked were changed all the same; is a trigger at work?")

    def _refuse_other_values(self, computed: _Computed, hashes: dict[tuple[str, ...], str]) -> None:
        expected = expected_hashes(
            computed.rows.keys, self.table.cursor, computed.values, self.table.set_columns
        )
        if expected is None:
            return
        for key, wanted in zip(computed.rows.keys, expected, strict=True):
            if key in hashes and hashes[key] != wanted:
                raise BackfillChunkError(
                    f"the row with cursor {', '.join(key)} holds other values than the function gave: a trigger or "
                    "the type of a column changed them"
                )


def open_update(connection: Connection, spec: UpdateSpec) -> UpdateKind:
    """At work on a table as it is now; refused where the job cannot run on it."""
    layout = load_layout(connection, spec.source.table)
    refuse_unfit(layout, spec)
    function = None if spec.update.function is None else load_function(spec.update.function)
    return UpdateKind(spec, UserTable(spec, layout), function)


def _stretch(chunk: HeldChunk) -> Stretch:
    return Stretch(chunk.cursor_from, chunk.cursor_to)
