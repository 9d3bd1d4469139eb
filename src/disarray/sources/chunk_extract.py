"""Chunks of an initial load: each stretch of the key is read under a snapshot of its own, and its files are written.

This runs in a task, wherever that is, and changes nothing but the landing folder: until the driver names its files they
are orphans.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from disarray.control.deliveries import Batch
from disarray.errors import DisarrayError
from disarray.failpoints import failpoint
from disarray.sources.delivering import write_batch
from disarray.sources.server_snapshots import current_snapshot, known_server, written_since
from disarray.sources.table_columns import layout_notices, read_layout, relation_of
from disarray.sources.table_pages import TRANSACTION, PagedTable
from disarray.sources.table_session import open_session
from disarray.sources.taken_rows import TakenRows
from disarray.sources.watermark import whole_transactions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import pyarrow as pa

    from disarray.control.deliveries import BatchCounts, DeliveredFile
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.landing import Landing
    from disarray.sources.load_share import LoadShare
    from disarray.sources.table_session import TableSession
    from disarray.sources.watermark import Position, SnapshotRead


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTask:
    """A chunk to be read, and all that a task needs to know; where the url is, never the url."""

    source: TableSource
    datasets: tuple[Dataset, ...]
    landing: Landing
    share: LoadShare
    layout: Mapping[str, Any]
    chunk_no: int
    key_from: Position | None
    key_to: Position | None
    before: SnapshotRead | None  # under which it was read once already
    is_final: bool  # nothing can appear in it any more: nobody will ask what was seen
    batch_no: int  # given out before its snapshot is taken, so that the watermark's newer versions have greater ones


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRead:
    """What a chunk held: its files, or why it could not be read. With `reached`, it was read only so far."""

    chunk_no: int
    batch: Batch
    files: tuple[DeliveredFile, ...]
    counts: BatchCounts
    notices: tuple[str, ...]
    read: SnapshotRead | None
    reached: Position | None
    key_first: str | None
    key_last: str | None


@dataclass(frozen=True, slots=True)
class ChunkFailure:
    """Why a chunk could not be read: an error as a value, because a task that fails tells only its traceback."""

    chunk_no: int
    error: DisarrayError


def extract_chunks(tasks: Sequence[ChunkTask]) -> list[ChunkRead | ChunkFailure]:
    """Read chunks of one source over one connection, and write the files of each, one for each subject.

    The first that cannot be read ends it: those behind it were not begun.
    """
    found: list[ChunkRead | ChunkFailure] = []
    source = tasks[0].source
    try:
        with open_session(source.url, source_name=source.name, timeout_us=source.timeout_us) as session:
            for task in tasks:
                found.append(_extract(session, task))  # noqa: PERF401 - what was read before an error counts
    except DisarrayError as error:
        found += [ChunkFailure(task.chunk_no, error) for task in tasks[len(found) :]]
    return found


def _extract(session: TableSession, task: ChunkTask) -> ChunkRead:
    source = task.source
    # A task that is run again writes other files: those of the first are orphans.
    batch = Batch(batch_no=task.batch_no, source_name=source.name, run_id=uuid.uuid4())
    found = read_chunk(session, task)
    failpoint("load.extracted", about=source.name)
    files = write_batch(
        task.landing, batch, found.rows.by_subject(), dataset=source.dataset, datasets=task.datasets
    )
    return ChunkRead(
        chunk_no=task.chunk_no,
        batch=batch,
        files=tuple(files),
        counts=found.rows.counts,
        notices=tuple(notice[:500] for notice in found.rows.notices),
        read=found.read,
        reached=found.reached,
        key_first=found.key_first,
        key_last=found.key_last,
    )


@dataclass(slots=True)
class FoundRows:
    """What was taken of a chunk; with `reached`, it was read only so far."""

    rows: TakenRows
    read: SnapshotRead | None
    seen: set[int] = field(default_factory=set)
    reached: Position | None = None
    key_first: str | None = None
    key_last: str | None = None


def read_chunk(session: TableSession, task: ChunkTask) -> FoundRows:
    """The rows of a chunk that belong to its share, in one snapshot, as far as there is room for them."""
    source = task.source
    [dataset] = [each for each in task.datasets if each.name == source.dataset]
    is_exact = bool(task.share.server)
    with session.snapshot(lock=relation_of(source) if is_exact else None):
        read = current_snapshot(session) if is_exact else None
        if is_exact:
            known_server(session, source, task.share.server)
        layout = read_layout(session, source, dataset)
        layout_notices(source.name, layout, task.layout)
        xmax = 0 if read is None else read.xmax
        before = task.before if task.before and task.before.is_usable(xmax) else None
        is_compared = is_exact and (before is not None or not task.is_final)
        table = PagedTable(session, source, layout, has_transactions=is_compared, is_by_key=True)
        # Pages in the order of the key find equal ones by themselves.
        found = FoundRows(TakenRows(source, source.limit, is_by_key=True), read if is_compared else None)
        conditions = [task.share.condition(source, xmax), written_since(before, xmax) if before else ""]
        condition = " and ".join(each for each in conditions if each)
        for page, is_last in table.pages(task.key_from, task.key_to, condition=condition):
            used = _take(found, table, page, before)
            if used < page.num_rows or (found.rows.is_full and not is_last):
                found.reached = table.position(page, used - 1)
                break
    if found.read is not None:
        found.read = replace(found.read, seen=frozenset(found.seen))
    return found


def _take(found: FoundRows, table: PagedTable, page: pa.Table, before: SnapshotRead | None) -> int:
    """Take what is new of a page; how many of its rows were looked at."""
    if not page.num_rows:
        return 0
    fresh = np.ones(page.num_rows, dtype=bool)
    if found.read is not None:
        transactions = whole_transactions(page.column(TRANSACTION).to_numpy(), found.read.xmax)
        within = (transactions >= found.read.xmin) & (transactions < found.read.xmax)
        found.seen.update(transactions[within].tolist())
        if before is not None:
            fresh = before.unseen(transactions)
    used = found.rows.add(page, fresh)
    found.key_first = found.key_first or table.shown_position(page, 0)
    found.key_last = table.shown_position(page, used - 1)
    return used
