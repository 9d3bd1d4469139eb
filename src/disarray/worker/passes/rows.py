"""Rows on their way through a pass: asked for, prepared by its tasks, written with the commit, and cleaned up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from disarray.control import commits, readings
from disarray.control.records import Records
from disarray.engine.jobs.scan_job import SegmentScan
from disarray.errors import FragmentMismatchError
from disarray.kernels.scanning.rollup_blocks import RollupBlock
from disarray.kernels.scanning.summaries import SUMMARY_SCHEMA
from disarray.model.description.dataset import Store
from disarray.model.description.readings_table import readings_table
from disarray.model.segments import datetime_of
from disarray.store.lake_readings import LakeReadings
from disarray.store.staging import RecordKind, RowsWanted, record_batches, staged_batches
from disarray.store.timescale import TableReadings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from disarray.control.commits import SubjectCommit
    from disarray.control.connections import Connection
    from disarray.engine.jobs.scan_job import ScannedSegment
    from disarray.model.description.dataset import Dataset
    from disarray.model.plan import SubjectPlan
    from disarray.store.contract import ReadingStore
    from disarray.store.staging import RecordBatch
    from disarray.worker.workplace import Workplace

    Scanned = Mapping[tuple[str, str, int], ScannedSegment]

# One statement carries about so much of the rows that follow a commit: a fraction of a second of work.
STATEMENT_BYTES = 2 << 20


def scans_of(
    connection: Connection, plans: Sequence[SubjectPlan], datasets: Mapping[str, Dataset]
) -> list[SegmentScan]:
    """What job 2 is asked for: every unit of the plans, with its rows where they go to a table.

    What such rows need is made ready here, in transactions of its own: numbers for their sources, and partitions.
    """
    scans = []
    for plan in plans:
        dataset = datasets[plan.dataset]
        if plan.store is not Store.TIMESCALE:
            scans += [SegmentScan(dataset, plan.subject_key, unit, former=plan.former) for unit in plan.units]
            continue
        table = readings_table(dataset)
        uris = {fragment.source_uri for unit in plan.units for fragment in unit.fragments}
        source_ids = readings.number_sources(connection, uris)
        readings.prepare_months(connection, dataset.name, [unit.segment_us for unit in plan.units])
        for unit in plan.units:
            stored = plan.in_table.get(unit.segment_us)
            wanted = RowsWanted(
                table=table,
                source_ids={
                    fragment.source_uri: source_ids[fragment.source_uri] for fragment in unit.fragments
                },
                stored_rows=0 if stored is None else stored.rows,
                stored_digest=None if stored is None else stored.digest,
            )
            scans.append(SegmentScan(dataset, plan.subject_key, unit, wanted, plan.former))
    return scans


def write_rows(
    connection: Connection, workplace: Workplace, plan: SubjectPlan, *, scanned: Scanned, fence: int
) -> None:
    """Inside the transaction of a commit and before its catalog: let the table hold what was scanned."""
    if plan.store is Store.LAKE and not plan.in_table:
        return
    results = {
        unit.segment_us: scanned[plan.dataset, plan.subject_key, unit.segment_us] for unit in plan.units
    }
    changed = {
        segment_us: result.rows
        for segment_us, result in results.items()
        if result.rows is None or result.rows.added or result.rows.replaces
    }
    if not changed:
        return
    store_of(connection, workplace, plan).write(
        connection,
        plan.subject_key,
        changed,
        planned_on=plan.store,
        holder=workplace.holder,
        fence=fence,
    )


def put_parts(
    connection: Connection,
    commit: SubjectCommit,
    plan: SubjectPlan,
    *,
    changed_segments: Iterable[int],
    scanned: Scanned,
    on_step: Callable[[], None],
) -> None:
    """Stream the summaries and rollup parts of the segments that a commit changes, some at a time.

    Never more than a statement's worth is held here, and the server never waits for more than its preparation.
    """
    held: list[RecordBatch] = []
    size = 0
    for segment_us in changed_segments:
        for batch in _batches(scanned[plan.dataset, plan.subject_key, segment_us]):
            held.append(batch)
            size += len(batch.records)
            if size >= STATEMENT_BYTES:
                _put(connection, commit, plan.dataset, held)
                on_step()
                held, size = [], 0
    if held:
        _put(connection, commit, plan.dataset, held)


def _put(connection: Connection, commit: SubjectCommit, dataset: str, batches: Sequence[RecordBatch]) -> None:
    summaries, rollups = (
        Records(sum(batch.count for batch in own), [batch.records for batch in own])
        for own in (
            [batch for batch in batches if batch.kind is kind]
            for kind in (RecordKind.SUMMARIES, RecordKind.ROLLUPS)
        )
    )
    commits.put_rows(connection, commit, dataset, summaries, rollups)


def _batches(result: ScannedSegment) -> Iterator[RecordBatch]:
    if result.parts is not None:
        return staged_batches(result.parts)
    return record_batches(
        pa.Table.from_pylist(list(result.metrics), schema=SUMMARY_SCHEMA),
        [RollupBlock.of_document(document) for document in result.rollups],
    )


def store_of(connection: Connection, workplace: Workplace, plan: SubjectPlan) -> ReadingStore:
    """The store that a plan writes to; one that is being left is still written to, until nothing is in it."""
    dataset = workplace.datasets[plan.dataset]
    if plan.store is Store.TIMESCALE or plan.in_table:
        return TableReadings.of(connection, dataset)
    return LakeReadings(workplace.lake, dataset)


def check_copies(plans: Iterable[SubjectPlan], scanned: Scanned) -> None:
    """Refuse a copy whose readings are not those that the catalog counts."""
    for plan in plans:
        for segment_us, digest in plan.copied.items():
            if scanned[plan.dataset, plan.subject_key, segment_us].segment["digest"] != digest:
                raise FragmentMismatchError(
                    f"the lake does not give the readings of {plan.subject_key} from "
                    f"{datetime_of(segment_us):%Y-%m-%dT%H:%MZ} on that the catalog counts. Nothing was copied or "
                    f"removed. Run: disarray verify --subject {plan.subject_key}"
                )
