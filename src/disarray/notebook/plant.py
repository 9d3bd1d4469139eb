"""A project opened in Python: the questions of the command line, answered as Arrow."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Self

from disarray.config import load
from disarray.control import connections, migrations
from disarray.errors import AmbiguousNameError, ConfigError, InvalidRequestError
from disarray.model.description.spec_table import near_miss
from disarray.model.file_status import FileStatus
from disarray.model.segments import FIRST_US, LAST_US, datetime_of
from disarray.notebook import tables
from disarray.notebook.result import Result
from disarray.queries import datasets as dataset_view
from disarray.queries import definitions, files, project, restatements, subjects
from disarray.queries.instants import read_instant, read_length
from disarray.queries.names import find_subjects
from disarray.queries.readings import readings, readings_with_values_schema
from disarray.queries.rollups import query_rollup
from disarray.queries.series import query_series
from disarray.queries.values import query_value
from disarray.store.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta
    from types import TracebackType

    import pyarrow as pa

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from disarray.queries.readings import Readings
    from disarray.queries.values import MetricAnswer

APPLICATION_NAME = "disarray python"
BATCH_ROWS = 65_536


class Plant:
    """A project at hand, to be asked; `close()` or the end of a `with` lets its connection go.

    Nothing is ever changed through it. One question is answered at a time: threads wait for each other.
    Times are datetimes with a zone, or ISO texts, in UTC where they name none.
    """

    def __init__(
        self, name: str, connection: Connection, lake: Lake, described: Mapping[str, Dataset]
    ) -> None:
        self._name = name
        self._connection = connection
        self._lake = lake
        self._datasets = described
        self._lock = RLock()
        self._open = ExitStack()
        self._open.callback(connection.close)

    def close(self) -> None:
        """Let the connection go; results that are still being read end with an error."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"disarray.open({self._name!r}): {', '.join(sorted(self._datasets)) or 'no datasets'}"

    def subjects(self, *, dataset: str | None = None, limit: int = 100_000) -> Result:
        """Subjects that have readings, in which dataset, and the span of them."""
        with self._lock:
            found = subjects.list_subjects(self._connection, dataset=dataset, limit=limit)
        rows = [tables.row_of(each) for each in found.subjects]
        return Result.of_rows(
            rows, tables.SUBJECTS, title="subjects", notes=_cut(found.next is not None, limit), document=found
        )

    def datasets(self) -> Result:
        """The datasets: where their readings live, their columns, metrics and rollups."""
        with self._lock:
            found = dataset_view.list_datasets(self._connection, self._datasets, limit=100_000)
        rows = [tables.row_of(each) for each in found.datasets]
        return Result.of_rows(rows, tables.DATASETS, title="datasets", document=found)

    def metrics(self, *, dataset: str | None = None) -> Result:
        """The metrics that are defined."""
        found = definitions.list_metrics(self._datasets, dataset=dataset, limit=100_000)
        rows = [tables.row_of(each) for each in found.metrics]
        return Result.of_rows(rows, tables.METRICS, title="metrics", document=found)

    def files(self, *, subject: str | None = None, status: str | None = None, limit: int = 100_000) -> Result:
        """Files that were ever announced, and where each stands."""
        chosen = None if status is None else _status(status)
        with self._lock:
            found = files.list_files(self._connection, status=chosen, subject_key=subject, limit=limit)
        rows = [tables.row_of(each) for each in found.files]
        return Result.of_rows(
            rows, tables.FILES, title="files", notes=_cut(found.next is not None, limit), document=found
        )

    def restatements(self, subject: str | None = None, *, limit: int = 100_000) -> Result:
        """Published values that were changed after people may have used them, newest first."""
        with self._lock:
            found = restatements.list_restatements(self._connection, subject_key=subject, limit=limit)
        rows = [tables.restatement_row(each) for each in found.restatements]
        return Result.of_rows(
            rows,
            tables.RESTATEMENTS,
            title="restatements",
            notes=_cut(found.next is not None, limit),
            document=found,
        )

    def value(
        self,
        subject: str,
        metric: str,
        *,
        at: str | datetime | None = None,
        channel: str | None = None,
        dataset: str | None = None,
    ) -> Result:
        """The value of a metric after the last reading at or before an instant, or the newest; for each channel."""
        with self._lock:
            answer = query_value(
                self._connection,
                self._lake,
                self._datasets,
                subject_key=subject,
                metric=metric,
                at_us=_instant(at),
                channel=channel,
                dataset=dataset,
            )
        return _values_result(answer)

    def series(
        self,
        subject: str,
        metric: str,
        *,
        every: str | timedelta,
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        channel: str | None = None,
        dataset: str | None = None,
    ) -> Result:
        """Values at regular instants, both ends included; from the first reading to the last where not given."""
        with self._lock:
            answer = query_series(
                self._connection,
                self._lake,
                self._datasets,
                subject_key=subject,
                metric=metric,
                every_us=read_length(every),
                from_us=_instant(from_),
                to_us=_instant(to),
                channel=channel,
                dataset=dataset,
            )
        return _values_result(answer)

    def rollup(
        self,
        subject: str,
        rollup: str,
        *,
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        channel: str | None = None,
        dataset: str | None = None,
    ) -> Result:
        """The buckets that overlap a span and hold readings, a column for each aggregate."""
        with self._lock:
            answer = query_rollup(
                self._connection,
                self._datasets,
                subject_key=subject,
                rollup=rollup,
                from_us=_instant(from_),
                to_us=_instant(to),
                channel=channel,
                dataset=dataset,
            )
        document = answer.document
        return Result.of_rows(
            tables.rollup_rows(document, answer.rollup),
            tables.rollup_schema(answer.subject.dataset, answer.rollup),
            title=f"{subject} {rollup}",
            notes=_state(document.stale_from, is_rebuild_pending=document.rebuild_pending),
            document=document,
        )

    def readings(
        self,
        subject: str,
        *,
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        dataset: str | None = None,
    ) -> Result:
        """Readings in [from_, to) with the value of every metric beside them, in order of time.

        Which fragments they are in is looked up now; they are read segment by segment, when a batch is asked for.
        """
        from_us, to_us = _instant(from_), _instant(to)
        with self._lock:
            found = find_subjects(self._connection, self._datasets, subject_key=subject, dataset=dataset)
            if len(found) > 1:
                names = " and ".join(each.dataset.name for each in found)
                raise AmbiguousNameError(
                    f"'{subject}' has readings in the datasets {names}; say which dataset"
                )
            [own] = found
            looked_up = readings(
                self._connection,
                self._lake,
                dataset=own.dataset,
                subject_key=subject,
                from_us=max(FIRST_US if from_us is None else from_us, own.first_us),
                to_us=min(LAST_US if to_us is None else to_us, own.last_us + 1),
            )
        stale = None if looked_up.stale_from_us is None else datetime_of(looked_up.stale_from_us)
        notes = _state(stale, is_rebuild_pending=own.is_rebuild_pending)
        if looked_up.sealed_segments:
            notes += (
                f"{looked_up.sealed_segments} sealed segments left out: their readings are no longer kept.",
            )
        return Result(
            readings_with_values_schema(own.dataset),
            lambda: self._batches(looked_up),
            title=f"{subject} ({own.dataset.name}): readings",
            notes=notes,
        )

    def _batches(self, found: Readings) -> Iterator[pa.RecordBatch]:
        """Batch after batch, no more than a segment in memory; between two of them others may ask."""
        segments = iter(found)
        while True:
            with self._lock:
                table = next(segments, None)
            if table is None:
                return
            yield from table.to_batches(max_chunksize=BATCH_ROWS)


def open_plant(
    project_or_dsn: str | os.PathLike[str] = ".", *, lake: str | os.PathLike[str] | None = None
) -> Plant:
    """A project folder, or the DSN of its database; with a DSN alone, datasets are those that the database has.

    `lake` says where the fragments lie, where it is not where the configuration says. An embedded database that is
    stopped is started and goes on running.
    """
    given = os.fspath(project_or_dsn)
    flags = {"--lake-root": None if lake is None else str(Path(lake).absolute())}
    if _is_dsn(given):
        config = load(Path.cwd(), flags=flags | {"--dsn": given})
        connection = connections.connect(given, application_name=APPLICATION_NAME)
    else:
        folder = Path(given).absolute()
        if not folder.is_dir():
            raise ConfigError(
                f"there is no folder {given}, and it is no DSN such as postgresql://host/database"
            )
        config = load(folder, flags=flags)
        described = project.configured_datasets(config)
        connection = project.connect(config, application_name=APPLICATION_NAME, on_start=lambda: None)
    try:
        if _is_dsn(given):
            migrations.prepare_schema(connection)
            described = dataset_view.stored_datasets(connection)
        # Never more than a look: whatever the role of the connection may do.
        connection.execute("set default_transaction_read_only = on")
    except BaseException:
        connection.close()
        raise
    return Plant("a DSN" if _is_dsn(given) else given, connection, Lake(config.lake_root), described)


def _is_dsn(given: str) -> bool:
    return "://" in given or ("=" in given and not Path(given).exists())


def _status(given: str) -> FileStatus:
    if given not in set(FileStatus):
        raise InvalidRequestError(f"no file stands at {given!r}; {near_miss(given, list(FileStatus))}")
    return FileStatus(given)


def _instant(given: str | datetime | None) -> int | None:
    return None if given is None else read_instant(given)


def _values_result(answer: MetricAnswer) -> Result:
    document = answer.document
    return Result.of_rows(
        tables.values_rows(document),
        tables.values_schema(answer.metric),
        title=f"{document.subject_key} {document.metric}",
        notes=_state(document.stale_from, is_rebuild_pending=document.rebuild_pending),
        document=document,
    )


def _state(stale_from: datetime | None, *, is_rebuild_pending: bool) -> tuple[str, ...]:
    notes = []
    if stale_from is not None:
        notes.append(f"Numbers from {stale_from.isoformat()} on are stale: a repair is queued. Ask again.")
    if is_rebuild_pending:
        notes.append("The dataset was defined anew; these are the numbers of the former definition.")
    return tuple(notes)


def _cut(is_cut: bool, limit: int) -> tuple[str, ...]:
    return (f"There are more than {limit:,}; limit= shows them.",) if is_cut else ()
