"""Stretches of a table that is resynced: read and staged, and compared before they count."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from disarray.backfill.row_sums import RowSum, sum_subject
from disarray.control import resyncs, sources
from disarray.errors import (
    BackfillTargetError,
    ConfigError,
    DatabaseUnavailableError,
    SourceAccessError,
    SourceKeyError,
    SourceLayoutError,
    SourceReplacedError,
    SourceTimeoutError,
    SourceUnavailableError,
)
from disarray.failpoints import failpoint
from disarray.sources.chunk_extract import ChunkTask
from disarray.sources.generation import (
    measure_stretch,
    refuse_unfit_source,
    stage_stretch,
    staged_rows,
    table_by_key,
    whole_share,
)
from disarray.sources.load_plan import estimated_rows
from disarray.sources.server_snapshots import known_server
from disarray.sources.table_extract import refuse_other_description
from disarray.sources.table_session import open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from disarray.control.connections import Connection
    from disarray.control.resyncs import ResyncState, StagedChunk
    from disarray.control.sources import SourceRecord
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.generation import StretchRead
    from disarray.sources.landing import Landing
    from disarray.sources.table_session import TableSession
    from disarray.sources.watermark import Position


@dataclass(frozen=True, slots=True)
class Staged:
    """A stretch that was read, and its files."""

    read: StretchRead
    sums: RowSum


@dataclass(frozen=True, slots=True)
class StretchEnd:
    """Where the next stretch ends, and how many rows it has. None: its end is open."""

    to: Position | None
    rows: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """A stretch of the key: behind one position and up to another. None: it is open at that end."""

    key_from: Position | None
    key_to: Position | None


@dataclass
class SourceTable:
    """The table of a source in the order of its key, over a connection that is kept until an error.

    `on_step` is called again and again: it raises where the process ends.
    """

    source: TableSource
    datasets: Mapping[str, Dataset]
    landing: Landing
    job_id: int | None  # None: it was not started
    on_step: Callable[[], None]
    stack: ExitStack
    server: str = ""  # the one that it has to be; empty where the source does not tell
    _session: TableSession | None = field(default=None)

    @property
    def description(self) -> str:
        """A hash of all that says which rows are taken, and whose they are: it must not change under a resync."""
        source = self.source
        described = [
            source.table,
            *source.key,
            source.cursor,
            str(source.watermark),
            str(source.at),
            source.subject.column,
            source.subject.constant,
            source.dataset,
        ]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()

    def expect_known_server(self, connection: Connection) -> None:
        """Read from the server that the source was read from, and from no other."""
        self.server = (self._known(connection).watermark or {}).get("server", "")

    def estimate(self, connection: Connection) -> int:
        """About how many rows it has; refused where it cannot be resynced."""
        known = self._known(connection)
        self.expect_known_server(connection)
        with self._own_errors():
            whole_share(self.source)
            refuse_unfit_source(self.session, self.source)
            refuse_other_description(self.source, known.watermark)
            return estimated_rows(self.session, self.source)

    def last_key(self) -> Position | None:
        """The greatest key; None of an empty table."""
        with self._own_errors():
            table = table_by_key(self.session, self.source, self._dataset)
            table.refuse_missing_keys()
            return table.last_position()

    def next_stretch(self, after: Position | None, key_end: Position | None, *, rows: int) -> StretchEnd:
        """Where the next stretch ends; what was added behind the greatest key meanwhile is the last one's."""
        with self._own_errors():
            table = table_by_key(self.session, self.source, self._dataset)
            end = None if key_end is None else table.end_of(after, key_end, rows=rows)
            if end is None or end == key_end:
                return StretchEnd(None, table.count(after, None))
            return StretchEnd(end, rows)

    def stage(self, connection: Connection, job_id: int, chunk_no: int, bounds: Bounds) -> Staged:
        """Read a stretch and write its files, which nobody knows before they are named."""
        sums = RowSum()

        def measure(subject_key: str, rows: Any) -> None:
            nonlocal sums
            self.on_step()
            sums += sum_subject(subject_key, rows)

        task = self._task(connection, job_id, chunk_no, bounds)
        with self._own_errors():
            found = stage_stretch(self.session, task, measure=measure)
        failpoint("resync.staged", connection, about=self.source.name)
        return Staged(found, sums)

    def measure(self, connection: Connection, job_id: int, chunk_no: int, bounds: Bounds) -> RowSum:
        """What the table has of a stretch now; nothing of it is kept."""
        now = RowSum()

        def measure(subject_key: str, rows: Any) -> None:
            nonlocal now
            now += sum_subject(subject_key, rows)

        task = self._task(connection, job_id, chunk_no, bounds)
        with self._own_errors():
            measure_stretch(self.session, task, measure=measure, on_page=self.on_step)
        return now

    def damage(self, connection: Connection, job_id: int, staged: StagedChunk) -> str | None:
        """Why the files of a stretch do not say what was read; None where they do."""
        sums = RowSum()
        for file in resyncs.list_staged_deliveries(connection, job_id, staged.chunk_no):
            try:
                for rows in staged_rows(file):
                    sums += sum_subject(file.subject_key, rows)
            except (OSError, ValueError) as error:
                return f"{file.source_uri} cannot be read: {error}"
            self.on_step()
        if (sums.rows, sums.checksum) == (staged.rows, staged.checksum):
            return None
        return (
            f"its files have {sums.rows} rows with the checksum {sums.checksum}, read was {staged.checksum}"
        )

    @property
    def session(self) -> TableSession:
        """A connection to the database of the source."""
        if self._session is None:
            source = self.source
            opened = self.stack.enter_context(
                open_session(source.url, source_name=source.name, timeout_us=source.timeout_us)
            )
            if self.server:
                known_server(opened, source, self.server)
            self._session = opened
        return self._session

    @property
    def _dataset(self) -> Dataset:
        return self.datasets[self.source.dataset]

    def _known(self, connection: Connection) -> SourceRecord:
        for known in sources.list_sources(connection):
            is_own = (known.pipeline_name, known.table_name) == (self.source.name, self.source.table_name)
            if is_own and known.layout is not None:
                return known
        raise ConfigError(
            f"source {self.source.name} was never read: there is nothing to compare with its table. Nothing was "
            f"started. Run: disarray source run {self.source.name} --once"
        )

    def _task(self, connection: Connection, job_id: int, chunk_no: int, bounds: Bounds) -> ChunkTask:
        state = resyncs.find_resync(connection, job_id)
        self.refuse_other(state)
        try:
            layout = self._known(connection).layout
        except ConfigError:
            raise BackfillTargetError(
                f"source {self.source.name} was reset since its resync began. Nothing was changed. When it was pulled "
                f"again, resync it anew: disarray backfill cancel {job_id}, then disarray source resync "
                f"{self.source.name}"
            ) from None
        assert state.batch_no is not None
        assert layout is not None
        return ChunkTask(
            source=self.source,
            datasets=tuple(self.datasets.values()),
            landing=self.landing,
            share=whole_share(self.source),
            layout=layout,
            chunk_no=chunk_no,
            key_from=bounds.key_from,
            key_to=bounds.key_to,
            # No row is told apart by who wrote it: all of them are taken.
            before=None,
            is_final=True,
            batch_no=state.batch_no,
        )

    def refuse_other(self, state: ResyncState) -> None:
        """Refuse to go on where the source is described otherwise by now: its rows would be of two descriptions."""
        self.server = state.server or ""
        if state.description in (None, self.description):
            return
        raise BackfillTargetError(
            f"source {self.source.name} is described otherwise than when its resync began. Numbers that were not "
            f"swapped are those of before. Put the description back and go on: disarray backfill resume {self.job_id}. "
            f"Or resync it anew: disarray backfill cancel {self.job_id}, then disarray source resync {self.source.name}"
        )

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Tell whose fault an error of the source is: its database's, that of its table, or the chunk's.

        After any of them the connection is of no use.
        """
        try:
            yield
        except (SourceUnavailableError, SourceTimeoutError) as error:
            self._forget_session()
            raise DatabaseUnavailableError(str(error)) from error
        except SourceReplacedError as error:
            self._forget_session()
            what_next = (
                "Nothing was started"
                if self.job_id is None
                else f"Nothing was changed. Give the resync up: disarray backfill cancel {self.job_id}"
            )
            raise BackfillTargetError(
                f"{error.finding or error}. {what_next}. If it is the right one: disarray source reset "
                f"{self.source.name}, and resync it when it was pulled"
            ) from error
        except (SourceAccessError, SourceLayoutError, SourceKeyError) as error:
            self._forget_session()
            # Subjects are swapped only when the table needs to be read no more.
            what_next = (
                "Nothing was started"
                if self.job_id is None
                else f"Nothing was changed. When it is mended: disarray backfill resume {self.job_id}"
            )
            raise BackfillTargetError(f"{error.finding or error}. {what_next}") from error
        except BaseException:
            self._forget_session()
            raise

    def _forget_session(self) -> None:
        self._session = None
        self.stack.close()


def key_text(key: Position | None) -> str:
    """A position as the text of a cursor; empty where the stretch is open."""
    return "" if key is None else json.dumps(list(key))


def key_of(text: str) -> Position | None:
    """The position behind such a text."""
    return tuple(json.loads(text)) if text else None
