"""A batch on its way: its files written, then one transaction in which they are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control import connections, deliveries
from disarray.control.queue import Lane
from disarray.errors import ConfigError, DatasetOverlapError, SubjectMissingError
from disarray.failpoints import failpoint
from disarray.model.matching import match_file
from disarray.model.uris import file_uri
from disarray.sources.landing import JSON_LINES, PARQUET

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pyarrow as pa

    from disarray.control.connections import Connection
    from disarray.control.deliveries import Batch, BatchCounts, DeliveredFile
    from disarray.control.files import Enqueued
    from disarray.model.description.dataset import Dataset
    from disarray.sources.landing import Landing


def write_batch(
    landing: Landing,
    batch: Batch,
    parts: Mapping[str, pa.Table],
    *,
    dataset: str,
    datasets: Collection[Dataset],
    on_file: Callable[[], None] = lambda: None,
) -> list[DeliveredFile]:
    """Write one file for each subject. Until `record_deliveries` names them they are orphans, and swept one day.

    `on_file` is called after each: thousands of them take longer than a lease.
    """
    for subject_key in parts:
        refuse_misplaced(landing, batch, subject_key, dataset=dataset, datasets=datasets)
    files = []
    for subject_key, table in sorted(parts.items()):
        if table.num_rows:
            files.append(landing.write(table, batch, subject_key=subject_key))
            on_file()
    failpoint("deliver.written", about=batch.source_name)
    return files


def write_lines(
    landing: Landing,
    batch: Batch,
    parts: Mapping[str, Sequence[str]],
    *,
    dataset: str,
    datasets: Collection[Dataset],
) -> list[DeliveredFile]:
    """The same for lines of JSON."""
    for subject_key in parts:
        refuse_misplaced(landing, batch, subject_key, dataset=dataset, datasets=datasets, suffix=JSON_LINES)
    files = [
        landing.write_lines(lines, batch, subject_key=subject_key)
        for subject_key, lines in sorted(parts.items())
    ]
    failpoint("deliver.written", about=batch.source_name)
    return files


def commit_batch(
    connection: Connection,
    batch: Batch,
    files: Sequence[DeliveredFile],
    *,
    advance: Callable[[], None],
    dataset: str,
    counts: BatchCounts,
    instance_name: str,
    cursor_from: str | None = None,
    cursor_to: str | None = None,
    lane: Lane = Lane.LIVE,
) -> list[Enqueued]:
    """Name the files of a batch and move its source on, in one transaction; a batch without files only moves it on.

    `advance` comes first: it locks what the rows were taken from, checks that they are still this worker's to take,
    and marks them as taken.
    """
    enqueued: list[Enqueued] = []
    with connections.transaction(connection):
        advance()
        if files:
            enqueued = deliveries.record_deliveries(
                connection,
                batch,
                files,
                dataset=dataset,
                counts=counts,
                instance_name=instance_name,
                cursor_from=cursor_from,
                cursor_to=cursor_to,
                lane=lane,
            )
        failpoint("deliver.recorded", connection, about=batch.source_name)
    failpoint("deliver.committed", connection, about=batch.source_name)
    return enqueued


def refuse_misplaced(
    landing: Landing,
    batch: Batch,
    subject_key: str,
    *,
    dataset: str,
    datasets: Collection[Dataset],
    suffix: str = PARQUET,
) -> None:
    """Refuse a delivery that would be read for another dataset or subject than the one that it is about."""
    path = str(landing.path(batch, subject_key, suffix=suffix).absolute())
    try:
        match = match_file(file_uri(path), list(datasets))
        found = None if match is None else (match.dataset.name, match.subject)
    except (DatasetOverlapError, SubjectMissingError) as error:
        raise ConfigError(f"{error}. Nothing was taken from {batch.source_name}") from error
    if found != (dataset, subject_key):
        folder = landing.folder(batch.source_name)
        read_for = "no dataset" if found is None else f"dataset {found[0]}, subject {found[1]!r}"
        raise ConfigError(
            f"what {batch.source_name} delivers about {subject_key!r} would lie at {path} and be read for {read_for}, "
            f'not for dataset {dataset}. Nothing was taken. Give that dataset roots = ["{folder}"], '
            f'files = ["**/*{suffix}"] and subject = {{ delivery = "folders" }}'
        )
