"""The kind `resync`: a table is read once more, whole, and what its source delivered before gives way to what was read.

Chunks are of four sorts, one after the other. The first gives the new generation its number. Then stretches of the key
are read and staged as files that count for nothing. Then each stretch is compared: its files with what was read, and
that with the table. Not before every chunk of these has ended do subjects change, each by an order of the queue, with
one commit. So a resync that does not verify, or is given up before, has changed nothing.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, assert_never

from disarray.backfill.kind import ChunkCheck, Cut, Extent
from disarray.backfill.order_wait import await_order
from disarray.backfill.stretches import Bounds, SourceTable, Staged, key_of, key_text
from disarray.control import backfills, resyncs, status
from disarray.control.backfill_chunks import ChunkResult
from disarray.errors import (
    BackfillTargetError,
    ConfigError,
    HandedBackError,
    InvalidRequestError,
)
from disarray.failpoints import failpoint
from disarray.model.segments import datetime_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from disarray.backfill.description import ResyncSpec
    from disarray.control.backfill_chunks import ChunkRecord, HeldChunk
    from disarray.control.connections import Connection
    from disarray.control.resyncs import ResyncState, StagedChunk, SwapProgress
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.landing import Landing
    from disarray.sources.watermark import Position

# What may go without being asked for: a table that is empty by mistake, or not the one that it was, takes more.
MOST_DELETED = 0.1

_REST = ""  # the end of the last stretch: open
_TIMES_COUNTED = 3  # a row is read, compared and taken in


class ChunkSort(StrEnum):
    """What a chunk is there for: the first text of its cursor. One sort follows the other."""

    BEGIN = "begin"
    READ = "read"
    COMPARE = "compare"
    SWAP = "swap"
    END = "end"


@dataclass(frozen=True, slots=True)
class ResyncMeans:
    """What a resync needs beside a database: the landing folder, and what the project describes."""

    landing: Landing | None
    datasets: Mapping[str, Dataset]
    sources: Sequence[TableSource]
    is_over: Callable[[], bool] = lambda: False  # whether what is at work is to be given back


@dataclass(frozen=True, slots=True)
class Begun:
    """What is known when a generation begins."""

    key_end: Position | None


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison found: whether the table has other rows by now."""

    rows: int
    checksum: str
    has_changed: bool


@dataclass(frozen=True, slots=True)
class Swapped:
    """A subject whose new generation counts."""

    subject_key: str


@dataclass(frozen=True)
class ResyncKind:
    """At work on the table of one source."""

    spec: ResyncSpec
    job_id: int | None  # None: it was not started
    table: SourceTable

    @property
    def can_be_undone(self) -> bool:
        """Files that are written stay until they are swept."""
        return False

    def extent(self, connection: Connection) -> Extent:
        """About how many rows the table has, three times; refused where it cannot be resynced."""
        rows = self.table.estimate(connection)
        return Extent(last=_cursor(ChunkSort.END), rows=_TIMES_COUNTED * rows, is_estimate=True, bytes=0)

    def cut(
        self, connection: Connection, after: Sequence[str] | None, *, end: Sequence[str], rows: int
    ) -> Cut | None:
        """The next chunk; None as long as chunks of one sort have to end before the next sort begins."""
        if after is None:
            return Cut(_cursor(ChunkSort.BEGIN), 0, is_last=False)
        state = resyncs.find_resync(connection, self._own_job)
        if state.batch_no is not None:
            self.table.refuse_other(state)
        sort = _sort(after)
        if state.dead_chunks and sort is not ChunkSort.SWAP:
            raise BackfillTargetError(
                f"a chunk of it is dead ({state.dead_error}), so that the table is not known whole. Numbers that were "
                f"not swapped are those of before. When it is mended: disarray backfill resume {self.job_id}"
            )
        if sort in (ChunkSort.BEGIN, ChunkSort.READ) and tuple(after) != _cursor(ChunkSort.READ, _REST):
            return self._next_stretch(state, after, rows=rows)
        if sort is ChunkSort.READ and state.open_chunks:
            return None
        if sort in (ChunkSort.READ, ChunkSort.COMPARE):
            found = resyncs.next_staged_chunk(connection, self._own_job, _place(after))
            if found is not None:
                return Cut(_cursor(ChunkSort.COMPARE, str(found.place)), found.rows or 0, is_last=False)
            if state.open_chunks:
                return None
            self._begin_swap(connection)
        return self._next_subject(connection, after[1] if sort is ChunkSort.SWAP else None)

    def read(self, connection: Connection, chunk: HeldChunk) -> object:
        """Do what the chunk is there for; nothing that counts is changed but by the orders of subjects."""
        sort = _sort(chunk.cursor_to)
        match sort:
            case ChunkSort.BEGIN:
                self.table.expect_known_server(connection)
                return Begun(self.table.last_key())
            case ChunkSort.READ:
                bounds = _bounds(chunk.cursor_from, chunk.cursor_to)
                return self.table.stage(connection, self._own_job, chunk.chunk_no, bounds)
            case ChunkSort.COMPARE:
                return self._compare(connection, chunk)
            case ChunkSort.SWAP:
                self._await_swap(connection, chunk.cursor_to[1])
                failpoint("resync.swapped", connection, about=chunk.cursor_to[1])
                return Swapped(chunk.cursor_to[1])
            case ChunkSort.END:
                return None
            case _:
                assert_never(sort)

    def write(self, connection: Connection, chunk: HeldChunk, known: object) -> ChunkResult:
        """Give the generation its number, or name the files of a stretch, in the transaction that ends the chunk."""
        match known:
            case Begun():
                self._begin(connection, known)
                return _result({})
            case Staged():
                resyncs.stage_deliveries(connection, chunk.job_id, chunk.chunk_no, known.read.files)
                counts = asdict(known.read.counts)
                return _result(
                    {"files": len(known.read.files), **counts, "notices": known.read.notices[:20]},
                    rows=known.sums.rows,
                    checksum=known.sums.checksum,
                )
            case Compared():
                return _result(
                    {"changed": known.has_changed}, rows=known.rows, checksum=known.checksum, written=0
                )
            case Swapped():
                return _result({"subject_key": known.subject_key}, rows=chunk.rows_cut)
            case _:
                return _result({})

    def answer(self, connection: Connection) -> Any:
        """A resync has no query of a user."""
        return None

    def verify(self, connection: Connection, chunk: ChunkRecord) -> ChunkCheck:
        """Whether the generation of a subject counts; stretches were compared before any did."""
        details = chunk.details or {}
        sort = _sort(chunk.cursor_to)
        rows = (chunk.rows_after or 0) if sort is ChunkSort.READ else 0
        if sort is ChunkSort.COMPARE:
            return ChunkCheck(rows=0, rows_changed_since=chunk.rows_after or 0 if details["changed"] else 0)
        if sort is ChunkSort.SWAP:
            subject_key = chunk.cursor_to[1]
            now = datetime_of(status.current_us(connection))
            if resyncs.resync_progress(connection, self._own_job, subject_key, since=now).is_pending:
                return ChunkCheck(rows=0, failed=(f"{subject_key} still has what its source said before",))
        return ChunkCheck(rows=rows)

    @property
    def _own_job(self) -> int:
        assert self.job_id is not None
        return self.job_id

    def _next_stretch(self, state: ResyncState, after: Sequence[str], *, rows: int) -> Cut | None:
        if state.batch_no is None:
            return None
        key_end = None if state.key_end is None else tuple(state.key_end)
        found = self.table.next_stretch(_key(after), key_end, rows=rows)
        return Cut(_cursor(ChunkSort.READ, key_text(found.to)), found.rows, is_last=False)

    def _begin_swap(self, connection: Connection) -> None:
        """Let subjects be swapped, unless too much of what counts would go."""
        size = resyncs.measure_swap(connection, self._own_job)
        if size.lost_chunks or size.rows_read != size.rows_staged:
            raise BackfillTargetError(
                f"a chunk is lost: {size.lost_chunks} begin where none ends; {size.rows_read} rows were read and "
                f"{size.rows_staged} are staged. Nothing was changed. Give the job up and start it again: disarray "
                f"backfill cancel {self.job_id}"
            )
        is_much = (
            size.readings_gone > MOST_DELETED * size.readings_before
            or size.subjects_without_rows > MOST_DELETED * size.subjects
        )
        if is_much and not self.spec.resync.allows_deletes:
            raise BackfillTargetError(
                f"{size.readings_before:,} readings of source {self.table.source.name} count, and its table has "
                f"{size.rows_staged:,} rows: {size.readings_gone:,} or more would go, {size.subjects_without_rows} of "
                f"{size.subjects} subjects with all that they have. Nothing was changed. If they are to go: disarray "
                f"backfill cancel {self.job_id}, then disarray source resync {self.table.source.name} --allow-deletes"
            )
        resyncs.verify_resync(connection, self._own_job)

    def _next_subject(self, connection: Connection, after: str | None) -> Cut:
        found = resyncs.next_swapped_subject(connection, self._own_job, after)
        if found is None:
            return Cut(_cursor(ChunkSort.END), 0, is_last=True)
        subject_key, rows = found
        return Cut(_cursor(ChunkSort.SWAP, subject_key), rows, is_last=False)

    def _begin(self, connection: Connection, known: Begun) -> None:
        try:
            resyncs.begin_resync(
                connection,
                self._own_job,
                source_name=self.table.source.name,
                table_name=self.table.source.table_name,
                dataset=self.table.source.dataset,
                key_end=known.key_end,
                server=self.table.server,
                description=self.table.description,
            )
        except InvalidRequestError as error:
            raise BackfillTargetError(str(error)) from error

    def _compare(self, connection: Connection, chunk: HeldChunk) -> Compared:
        """What lies on disk with what was read, and that with what the table has now."""
        staged = self._staged_chunk(connection, chunk)
        wrong = self.table.damage(connection, self._own_job, staged)
        if wrong is not None:
            sentence = f"chunk {staged.chunk_no}, of {staged.rows} rows: {wrong}"
            # Its files are forgotten with the next attempt: whoever resumes the job has the stretch read once more.
            resyncs.repeat_staged_chunk(connection, chunk, staged.chunk_no, sentence)
            raise BackfillTargetError(
                f"what it staged is not what it read: {sentence}. Nothing was changed: the numbers are those of "
                f"before. To read that stretch once more: disarray backfill resume {self.job_id}"
            )
        bounds = _bounds(staged.cursor_from, staged.cursor_to)
        now = self.table.measure(connection, self._own_job, staged.chunk_no, bounds)
        failpoint("resync.compared", connection, about=self.table.source.name)
        assert staged.rows is not None
        assert staged.checksum is not None
        return Compared(
            staged.rows, staged.checksum, (now.rows, now.checksum) != (staged.rows, staged.checksum)
        )

    def _staged_chunk(self, connection: Connection, chunk: HeldChunk) -> StagedChunk:
        found = resyncs.next_staged_chunk(connection, self._own_job, _place(chunk.cursor_from))
        if found is None or str(found.place) != chunk.cursor_to[1]:
            raise BackfillTargetError(
                "a chunk is lost: that which is to be compared is not there any more. Nothing was changed. Give the "
                f"job up and start it again: disarray backfill cancel {self.job_id}"
            )
        if found.state != "done":
            raise HandedBackError(f"chunk {found.chunk_no} is read once more before it is compared")
        return found

    def _await_swap(self, connection: Connection, subject_key: str) -> None:
        since = datetime_of(status.current_us(connection))

        def find() -> SwapProgress:
            progress = resyncs.resync_progress(connection, self._own_job, subject_key, since=since)
            if progress.is_pending and progress.is_given_up and progress.is_replaced:
                raise BackfillTargetError(
                    f"another resync of source {self.table.source.name} began before {subject_key} was swapped, and "
                    "reads all of the table anew. This one has nothing left to do. Give it up: disarray backfill "
                    f"cancel {self.job_id}"
                )
            if progress.is_pending and progress.is_given_up:
                raise HandedBackError(f"the resync was given up before {subject_key} was swapped")
            return progress

        def queue() -> None:
            resyncs.queue_resync(connection, self._own_job, subject_key)
            failpoint("resync.queued", connection, about=subject_key)

        def note_wait(progress: SwapProgress) -> None:
            if not progress.is_claimed:
                # Who looks at the job would see it stand still. The next claim of a chunk clears it.
                reason = f"the order that swaps {subject_key} waits for a worker; see: disarray queue list"
                backfills.note_backfill_hold(connection, self._own_job, "worker", reason)

        await_order(find, queue=queue, on_look=self.table.on_step, on_wait=note_wait)


@contextmanager
def open_resync(spec: ResyncSpec, job_id: int | None, means: ResyncMeans) -> Iterator[ResyncKind]:
    """At work on the source that the description names; refused where this process does not know it."""
    known = {each.name: each for each in means.sources}
    source = known.get(spec.resync.source)
    if source is None or means.landing is None:
        raise ConfigError(
            f"disarray.toml describes no source '{spec.resync.source}', which backfill '{spec.name}' resyncs. Nothing "
            "was changed"
        )

    def go_on() -> None:
        if means.is_over():
            raise HandedBackError("the process ends: the chunk is given back, and what it did is done again")

    with ExitStack() as stack:
        yield ResyncKind(
            spec, job_id, SourceTable(source, means.datasets, means.landing, job_id, go_on, stack)
        )


def _cursor(sort: ChunkSort, *place: str) -> tuple[str, ...]:
    """As it is stored: the value of the sort, because psycopg would write the name of an enum."""
    return (sort.value, *place)


def _sort(cursor: Sequence[str]) -> ChunkSort:
    return ChunkSort(cursor[0])


def _key(cursor: Sequence[str] | None) -> Position | None:
    """The key where a stretch ends; None before the first, and behind the last."""
    return key_of(cursor[1]) if cursor is not None and _sort(cursor) is ChunkSort.READ else None


def _bounds(cursor_from: Sequence[str] | None, cursor_to: Sequence[str]) -> Bounds:
    return Bounds(_key(cursor_from), _key(cursor_to))


def _place(cursor: Sequence[str] | None) -> str | None:
    return cursor[1] if cursor is not None and _sort(cursor) is ChunkSort.COMPARE else None


def _result(
    details: dict[str, Any], *, rows: int = 0, checksum: str | None = None, written: int | None = None
) -> ChunkResult:
    shown = json.dumps(details).encode()
    return ChunkResult(
        rows_written=rows if written is None else written,
        rows_read_again=0,
        rows_after=rows,
        checksum=checksum or hashlib.md5(shown, usedforsecurity=False).hexdigest(),
        details=details,
    )
