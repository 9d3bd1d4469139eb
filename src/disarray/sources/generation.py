"""A table read once more, whole, by stretches of its key: a new generation of what its source delivered.

Every row that the source takes is read, whoever wrote it and whenever: what was deleted, or has another time or key by
now, is not among them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from disarray.control.deliveries import Batch, BatchCounts
from disarray.errors import ConfigError, SourceError
from disarray.failpoints import failpoint
from disarray.model.description.table_source import Start, WatermarkKind
from disarray.model.uris import file_path
from disarray.sources.chunk_extract import ChunkTask, read_chunk
from disarray.sources.delivering import write_batch
from disarray.sources.load_share import LoadShare
from disarray.sources.settled_extract import start_settled
from disarray.sources.table_columns import layout_notices, read_layout
from disarray.sources.table_pages import PagedTable
from disarray.sources.table_session import Server
from disarray.sources.taken_rows import TakenRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from disarray.control.deliveries import DeliveredFile
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.table_session import TableSession


@dataclass(slots=True)
class StretchRead:
    """What a stretch of the key held, and the files that say so."""

    files: list[DeliveredFile] = field(default_factory=list)
    counts: BatchCounts = field(default_factory=lambda: BatchCounts(seen=0, taken=0))
    notices: list[str] = field(default_factory=list)


def whole_share(source: TableSource) -> LoadShare:
    """Every row that the source would have taken since it began."""
    if source.at is Start.NOW:
        raise ConfigError(
            f"source {source.name} begins at 'now': which rows of its table are older than that cannot be told, so it "
            "cannot be resynced. Nothing was started. Give it the value of its cursor where it began"
        )
    if source.at is Start.BEGINNING:
        return LoadShare()
    if source.watermark is WatermarkKind.BUFFER:
        return LoadShare(after=source.at)
    settled = start_settled(source, source.at).settled
    return LoadShare(after=None if settled is None else settled[0])


def refuse_unfit_source(session: TableSession, source: TableSource) -> None:
    """Refuse what cannot be read in stretches of its key."""
    if source.table is None or session.server is not Server.POSTGRESQL:
        raise ConfigError(
            f"source {source.name} is no table of a PostgreSQL database: only such a one can be resynced. Nothing was "
            "started"
        )


def table_by_key(session: TableSession, source: TableSource, dataset: Dataset) -> PagedTable:
    """The table in the order of its key."""
    layout = read_layout(session, source, dataset)
    return PagedTable(session, source, layout, has_transactions=False, is_by_key=True)


def stage_stretch(
    session: TableSession, task: ChunkTask, *, measure: Callable[[str, pa.Table], None]
) -> StretchRead:
    """Read a stretch and write its files, one for each subject; nobody names them until the chunk ends.

    What does not fit into memory is read in pieces, each in a snapshot of its own.
    """
    source = task.source
    found = StretchRead()
    piece = 0
    while True:
        read = read_chunk(session, task)
        parts = read.rows.by_subject()
        for subject_key, rows in parts.items():
            measure(subject_key, rows)
        batch = Batch(batch_no=task.batch_no, source_name=source.name, run_id=_run_id(task.chunk_no, piece))
        failpoint("resync.extracted", about=source.name)
        found.files += write_batch(task.landing, batch, parts, dataset=source.dataset, datasets=task.datasets)
        found.counts = _sum(found.counts, read.rows.counts)
        found.notices += [notice[:500] for notice in read.rows.notices]
        if read.reached is None:
            return found
        task = replace(task, key_from=read.reached)
        piece += 1


def measure_stretch(
    session: TableSession,
    task: ChunkTask,
    *,
    measure: Callable[[str, pa.Table], None],
    on_page: Callable[[], None] = lambda: None,
) -> None:
    """Read a stretch page by page and keep nothing of it.

    `SourceError` where the table itself counts other rows, `SourceLayoutError` where its columns are others by now.
    """
    source = task.source
    [dataset] = [each for each in task.datasets if each.name == source.dataset]
    condition = task.share.condition(source, 0)
    seen = 0
    with session.snapshot():
        table = table_by_key(session, source, dataset)
        layout_notices(source.name, table.layout, task.layout)
        counted = table.count(task.key_from, task.key_to, condition=condition)
        for page, _ in table.pages(task.key_from, task.key_to, condition=condition):
            rows = TakenRows(source, max(1, page.num_rows), is_by_key=True)
            rows.add(page, np.ones(page.num_rows, dtype=bool))
            seen += page.num_rows
            for subject_key, part in rows.by_subject().items():
                measure(subject_key, part)
            on_page()
    if seen != counted:
        raise SourceError.of(source.name, f"{seen} rows were read of a stretch of its key that has {counted}")


def staged_rows(file: DeliveredFile) -> Iterator[pa.Table]:
    """The rows of a staged file, a part of it at a time, as they lie on disk."""
    with pq.ParquetFile(file_path(file.source_uri)) as opened:
        for number in range(opened.num_row_groups):
            yield opened.read_row_group(number)


def _run_id(chunk_no: int, piece: int) -> uuid.UUID:
    """A name whose order is that of the key: of rows with the same key of the dataset, the last one counts."""
    return uuid.UUID(int=(chunk_no << 80) | (piece << 64) | (uuid.uuid4().int >> 64))


def _sum(first: BatchCounts, second: BatchCounts) -> BatchCounts:
    return BatchCounts(
        seen=first.seen + second.seen,
        taken=first.taken + second.taken,
        duplicate=first.duplicate + second.duplicate,
        rejected=first.rejected + second.rejected,
    )
