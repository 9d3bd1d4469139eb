"""Initial loads carried out: chunks cut, claimed, read by tasks side by side, and committed one by one.

A chunk's files and its end are one transaction. Killed between any two steps, a loader leaves leases that run out and
files that nobody names; whoever comes next reads those chunks, and no other, again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from disarray.control import connections, deliveries, source_loads
from disarray.control.lease_renewal import renewed
from disarray.control.queue import Lane
from disarray.errors import ControlError, DisarrayError
from disarray.failpoints import failpoint
from disarray.model.duration import DAY, SECOND
from disarray.sources.chunk_extract import ChunkFailure, ChunkTask, extract_chunks
from disarray.sources.delivering import commit_batch
from disarray.sources.load_plan import cut_chunks
from disarray.sources.load_share import restore_share
from disarray.sources.server_snapshots import open_transactions
from disarray.sources.table_extract import refuse_other_description
from disarray.sources.table_session import open_session
from disarray.sources.watermark import read_document, restore_read, still_open

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from disarray.control.connections import Connection, Pool
    from disarray.control.queue import Holder
    from disarray.control.source_loads import Key, SourceChunk, SourceLoad
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.chunk_extract import ChunkRead
    from disarray.sources.landing import Landing
    from disarray.sources.watermark import Position

log = logging.getLogger(__name__)

_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(minutes=25)


# Where nothing else waits for the cores.
CHUNKS_OF_A_TASK = 4


class TaskRunner(Protocol):
    """Runs a module-level kernel once for each task, several at the same time; as the engine does."""

    def run(self, kernel: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Results in the order of the tasks."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRound:
    """What one round of a load delivered. `is_waiting`: what is left waits for transactions or other workers."""

    source: str
    chunks: int
    rows: int
    is_done: bool = False
    is_waiting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialLoader:
    """Carries out the initial loads of a project. Several workers may do so at once: each chunk has one reader."""

    pool: Pool
    landing: Landing
    datasets: Mapping[str, Dataset]
    holder: Holder
    sources: tuple[TableSource, ...]
    runner: TaskRunner
    cores: int  # tasks that run at the same time, whatever a source allows
    chunks_of_a_task: int = (
        1  # more cost fewer connections and jobs, and leave more to do again after a crash
    )
    lease_seconds: int = 300

    def load_round(self, source: TableSource) -> LoadRound | None:
        """Read and deliver the next chunks, as many as are read at a time; None where no load is due.

        What goes wrong is written down with the load, which is due again later and later, and raised.
        """
        with self.pool.connection() as connection:
            load = source_loads.find_source_load(connection, source.name, source.table_name)
        if load is None or not load.is_due:
            return None
        tasks = min(source.load_tasks, self.cores)
        most_chunks = tasks * self.chunks_of_a_task
        fence = 0
        try:
            refuse_other_description(source, load.plan)
            self._prepare(source, load, chunks=most_chunks)
            with self.pool.connection() as connection:
                claimed = source_loads.claim_source_chunks(
                    connection,
                    load.load_id,
                    self.holder,
                    lease_seconds=self._lease_seconds(source),
                    limit=most_chunks,
                )
            if not claimed:
                return self._ended(source, load)
            fence = claimed[0].fence
            failpoint("load.claimed", about=source.name)
            return self._read_and_deliver(source, load, claimed, tasks=tasks)
        except Exception as failure:
            error = (
                str(failure) if isinstance(failure, DisarrayError) else f"{type(failure).__name__}: {failure}"
            )
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(load.failure_count, 10))
            # Where the database is away or the load is over, the leases run out.
            with suppress(ControlError), self.pool.connection() as connection:
                source_loads.release_source_chunks(
                    connection, load.load_id, self.holder, fence, error=error, next_in=pause
                )
            raise

    def _prepare(self, source: TableSource, load: SourceLoad, *, chunks: int) -> None:
        """See which transactions have ended, and cut chunks where too few are left."""
        is_short = not load.is_cut and load.unread_chunks < chunks
        if not load.open_transactions and not is_short:
            return
        with open_session(source.url, source_name=source.name, timeout_us=source.timeout_us) as session:
            if load.open_transactions:
                # Before any snapshot of this round: whoever has ended by now is in all of them.
                left = still_open(load.open_transactions, open_transactions(session))
                with self.pool.connection() as connection:
                    source_loads.settle_source_load(connection, load.load_id, sorted(left))
            if not is_short:
                return
            ends, is_last = cut_chunks(
                session,
                source,
                self.datasets[source.dataset],
                after=_position(load.cut_up_to),
                key_end=tuple(load.key_end),
                chunks=2 * chunks,
            )
        failpoint("load.cut", about=source.name)
        with self.pool.connection() as connection:
            source_loads.add_source_chunks(
                connection, load.load_id, cut_up_to=load.cut_up_to, ends=ends, is_last=is_last
            )

    def _read_and_deliver(
        self, source: TableSource, load: SourceLoad, claimed: Sequence[SourceChunk], *, tasks: int
    ) -> LoadRound:
        to_read = [self._task(source, load, chunk) for chunk in claimed]
        with self._renewed(source, load, claimed[0].fence):
            shares = [to_read[first::tasks] for first in range(min(tasks, len(to_read)))]
            found_by_share = self.runner.run(extract_chunks, shares)
            results = {found.chunk_no: found for share in found_by_share for found in share}
            failpoint("load.read", about=source.name)
            rows = 0
            failures = [found.error for found in results.values() if isinstance(found, ChunkFailure)]
            for chunk in claimed:
                found = results[chunk.chunk_no]
                if not isinstance(found, ChunkFailure):
                    self._deliver(source, load, chunk, found)
                    rows += found.counts.taken
        if failures:
            raise failures[0]
        return LoadRound(source=source.name, chunks=len(claimed), rows=rows)

    def _task(self, source: TableSource, load: SourceLoad, chunk: SourceChunk) -> ChunkTask:
        with self.pool.connection() as connection:
            # Before the task takes its snapshot. A newer version of a row is then taken by the watermark after this,
            # and has the greater number: under one key the later one wins.
            batch_no = deliveries.next_batch(connection)
        return ChunkTask(
            source=source,
            datasets=tuple(self.datasets.values()),
            landing=self.landing,
            share=restore_share(load.plan["share"]),
            layout=load.plan["layout"],
            chunk_no=chunk.chunk_no,
            key_from=_position(chunk.key_from),
            key_to=_position(chunk.key_to),
            before=restore_read(chunk.read_under),
            is_final=chunk.is_final,
            batch_no=batch_no,
        )

    def _deliver(self, source: TableSource, load: SourceLoad, chunk: SourceChunk, found: ChunkRead) -> None:
        with self.pool.connection() as connection:

            def complete() -> None:
                source_loads.complete_source_chunk(
                    connection,
                    load.load_id,
                    chunk,
                    self.holder,
                    counts=found.counts,
                    read_under=None if chunk.is_final else read_document(found.read),
                    reached=found.reached,
                    notices=found.notices,
                )

            if not found.files:
                with connections.transaction(connection):
                    complete()
                return
            commit_batch(
                connection,
                found.batch,
                found.files,
                advance=complete,
                dataset=source.dataset,
                counts=found.counts,
                instance_name=self.holder.instance_name,
                cursor_from=found.key_first,
                cursor_to=found.key_last,
                lane=Lane.BACKFILL,
            )

    def _ended(self, source: TableSource, load: SourceLoad) -> LoadRound:
        with self.pool.connection() as connection:
            is_done = source_loads.end_source_load(connection, load.load_id)
        failpoint("load.ended", about=source.name)
        return LoadRound(source=source.name, chunks=0, rows=0, is_done=is_done, is_waiting=not is_done)

    def _lease_seconds(self, source: TableSource) -> int:
        return max(self.lease_seconds, min(2 * source.timeout_us, DAY) // SECOND)

    def _renewed(self, source: TableSource, load: SourceLoad, fence: int) -> AbstractContextManager[None]:
        """Keep the claims while tasks read."""
        lease_seconds = self._lease_seconds(source)

        def renew(connection: Connection) -> None:
            source_loads.renew_source_chunks(
                connection, load.load_id, self.holder, fence, lease_seconds=lease_seconds
            )

        return renewed(self.pool, renew, about=f"chunks of {source.name}", lease_seconds=lease_seconds)


def _position(key: Key | None) -> Position | None:
    return None if key is None else tuple(key)
