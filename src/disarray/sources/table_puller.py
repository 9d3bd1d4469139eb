"""Table sources pulled: what an extract took becomes deliveries, and the watermark moves in the same transaction.

A turn is claimed, rows are read, their files are written and brought to disk, one transaction names the files and moves
the watermark. Killed between any two of them, a puller leaves a lease that runs out and files that nobody names.
"""

from __future__ import annotations

import logging
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from disarray.control import connections, deliveries, source_loads, sources
from disarray.control.deliveries import Batch
from disarray.errors import ConfigError, ControlError, DisarrayError, UnknownNameError
from disarray.failpoints import failpoint
from disarray.model.description.spec_table import near_miss
from disarray.model.duration import DAY, SECOND
from disarray.sources.delivering import commit_batch, refuse_misplaced, write_batch
from disarray.sources.load_plan import plan_load
from disarray.sources.table_extract import extract
from disarray.sources.table_session import open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping

    from disarray.control.connections import Pool
    from disarray.control.deliveries import BatchCounts
    from disarray.control.queue import Holder
    from disarray.control.sources import SourceTurn
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.landing import Landing
    from disarray.sources.load_plan import LoadPlan
    from disarray.sources.table_extract import Extract

log = logging.getLogger(__name__)

_LONGEST_PAUSE = timedelta(minutes=25)
_FIRST_PAUSE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledBatch:
    """What one extract of a source delivered; without rows nothing was delivered."""

    source: str
    counts: BatchCounts
    files: int
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePuller:
    """Pulls the table sources of a project. Any number of workers may do so at once: each source has one reader."""

    pool: Pool
    landing: Landing
    datasets: Mapping[str, Dataset]
    holder: Holder
    sources: tuple[TableSource, ...]
    lease_seconds: int = 300

    def pull(self, source: TableSource, *, is_asked_for: bool = False) -> Generator[PulledBatch]:
        """Take a turn and deliver what is new, batch by batch; nothing where it is held, paused or not due.

        What goes wrong is written down with the source, which is due again later and later, and raised; so is a turn
        that was lost on the way, which nobody but its new holder may write about.
        """
        with self.pool.connection() as connection:
            turn = sources.claim_source(
                connection,
                source.name,
                source.table_name,
                self.holder,
                lease_seconds=self._lease_seconds(source),
                is_asked_for=is_asked_for,
            )
        if turn is None:
            return
        failpoint("pull.claimed", about=source.name)
        next_in, error = timedelta(microseconds=source.every_us), None
        try:
            yield from self._batches(source, turn)
        except GeneratorExit:
            next_in = timedelta(0)
            raise
        except Exception as failure:
            error = (
                str(failure) if isinstance(failure, DisarrayError) else f"{type(failure).__name__}: {failure}"
            )
            next_in = max(next_in, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(turn.failure_count, 10)))
            raise
        finally:
            # Where the database is away or the turn is over, the lease runs out.
            with suppress(ControlError), self.pool.connection() as connection:
                sources.end_source_turn(connection, turn, next_in=next_in, error=error)
        failpoint("pull.ended", about=source.name)

    def holder_of(self, source: TableSource) -> str | None:
        """Who reads a source right now; None where nobody does, as where it is paused."""
        with self.pool.connection() as connection:
            return next(
                (
                    known.held_by
                    for known in sources.list_sources(connection)
                    if (known.pipeline_name, known.table_name) == (source.name, source.table_name)
                ),
                None,
            )

    def _batches(self, source: TableSource, turn: SourceTurn) -> Generator[PulledBatch]:
        watermark, layout, notices = turn.watermark, turn.layout, turn.notices
        renewal = _Renewal(self.pool, turn, self._lease_seconds(source))
        with open_session(source.url, source_name=source.name, timeout_us=source.timeout_us) as session:
            plan = plan_load(session, source, self.datasets[source.dataset], watermark)
            if plan is not None:
                failpoint("load.planned", about=source.name)
                self._begin_load(turn, plan)
                watermark, layout = dict(plan.watermark), dict(plan.layout)
                failpoint("load.begun", about=source.name)
            is_complete = False
            while not is_complete:
                renewal.renew()
                found = extract(
                    session,
                    source,
                    self.datasets[source.dataset],
                    watermark=watermark,
                    layout=layout,
                    notices=notices,
                    on_page=renewal.renew_in_time,
                )
                failpoint("pull.extracted", about=source.name)
                pulled = self._deliver(source, turn, found, on_file=renewal.renew_in_time)
                watermark, layout, notices = dict(found.watermark), dict(found.layout), list(found.notices)
                is_complete = found.is_complete
                yield pulled

    def _begin_load(self, turn: SourceTurn, plan: LoadPlan) -> None:
        """Store a load and the watermark that begins behind it: from now on each takes its own."""
        with self.pool.connection() as connection, connections.transaction(connection):
            sources.advance_source(
                connection, turn, run_id=uuid.uuid4(), watermark=plan.watermark, layout=plan.layout
            )
            source_loads.begin_source_load(
                connection,
                turn,
                plan=plan.document(),
                open_transactions=sorted(plan.division.open),
                key_end=plan.key_end,
                rows_estimated=plan.rows_estimated,
            )

    def _lease_seconds(self, source: TableSource) -> int:
        """Longer than the one statement during which nothing can be renewed."""
        return max(self.lease_seconds, min(2 * source.timeout_us, DAY) // SECOND)

    def _deliver(
        self, source: TableSource, turn: SourceTurn, found: Extract, *, on_file: Callable[[], None]
    ) -> PulledBatch:
        run_id = uuid.uuid4()
        with self.pool.connection() as connection:

            def advance() -> None:
                sources.advance_source(
                    connection,
                    turn,
                    run_id=run_id,
                    watermark=found.watermark,
                    counts=found.counts,
                    layout=found.layout,
                    notices=found.notices,
                    cursor_to=found.cursor_to,
                )

            if not found.parts:
                with connections.transaction(connection):
                    advance()
                return PulledBatch(
                    source=source.name, counts=found.counts, files=0, is_complete=found.is_complete
                )
            batch = deliveries.begin_batch(connection, source.name, run_id=run_id)
            files = write_batch(
                self.landing,
                batch,
                found.parts,
                dataset=source.dataset,
                datasets=self.datasets.values(),
                on_file=on_file,
            )
            commit_batch(
                connection,
                batch,
                files,
                advance=advance,
                dataset=source.dataset,
                counts=found.counts,
                instance_name=self.holder.instance_name,
                cursor_from=found.cursor_from,
                cursor_to=found.cursor_to,
            )
        return PulledBatch(
            source=source.name, counts=found.counts, files=len(files), is_complete=found.is_complete
        )


@dataclass(slots=True)
class _Renewal:
    """Keeps the turn while pages arrive."""

    pool: Pool
    turn: SourceTurn
    lease_seconds: int
    _renewed_at: float = 0.0

    def renew(self) -> None:
        with self.pool.connection() as connection:
            sources.renew_source(connection, self.turn, lease_seconds=self.lease_seconds)
        self._renewed_at = time.monotonic()

    def renew_in_time(self) -> None:
        if time.monotonic() - self._renewed_at > self.lease_seconds / 4:
            self.renew()


def find_source(known: Collection[TableSource], name: str) -> TableSource:
    """The source of that name; an unknown one is answered with the nearest."""
    found = {source.name: source for source in known}
    if name not in found:
        raise UnknownNameError(
            f"disarray.toml describes no source '{name}'; {near_miss(name, list(found))}. Nothing was changed"
        )
    return found[name]


def refuse_unreadable_sources(
    landing: Landing, known: Collection[TableSource], datasets: Collection[Dataset]
) -> None:
    """Refuse sources whose rows would be delivered where nobody reads them for their dataset."""
    for source in known:
        batch = Batch(batch_no=0, source_name=source.name, run_id=uuid.UUID(int=0))
        try:
            refuse_misplaced(landing, batch, "SUBJECT", dataset=source.dataset, datasets=datasets)
        except ConfigError as error:
            raise ConfigError(f"source {source.name}: {error}") from error
