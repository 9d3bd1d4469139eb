"""Rows of tables on their way through a pass: asked for, prepared for, written with the commit, and cleaned up."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from disarray.control import readings
from disarray.engine.scan_job import SegmentScan
from disarray.errors import FragmentMismatchError
from disarray.model.dataset import Store
from disarray.model.segments import datetime_of
from disarray.model.tables import readings_table
from disarray.store.lake_readings import LakeReadings
from disarray.store.staging import RowsWanted
from disarray.store.timescale import TableReadings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from disarray.control.connections import Connection
    from disarray.engine.scan_job import ScannedSegment
    from disarray.model.dataset import Dataset
    from disarray.model.plan import SubjectPlan
    from disarray.store.contract import ReadingStore
    from disarray.store.lake import Lake
    from disarray.worker.work import Workplace

    Scanned = Mapping[tuple[str, str, int], ScannedSegment]


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
            scans += [SegmentScan(dataset, plan.subject_key, unit) for unit in plan.units]
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
            scans.append(SegmentScan(dataset, plan.subject_key, unit, wanted))
    return scans


def write_rows(
    connection: Connection, place: Workplace, plan: SubjectPlan, *, scanned: Scanned, fence: int
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
    store_of(connection, place, plan).write(
        connection,
        plan.subject_key,
        changed,
        planned_on=plan.store,
        holder=place.holder,
        fence=fence,
    )


def store_of(connection: Connection, place: Workplace, plan: SubjectPlan) -> ReadingStore:
    """The store that a plan writes to; one that is being left is still written to, until nothing is in it."""
    dataset = place.datasets[plan.dataset]
    if plan.store is Store.TIMESCALE or plan.in_table:
        return TableReadings.of(connection, dataset)
    return LakeReadings(place.lake, dataset)


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


@contextmanager
def staging_folder(lake: Lake, scans: Iterable[SegmentScan]) -> Iterator[Path | None]:
    """Where tasks put rows on their way into a table, gone after the block; None where no rows are wanted."""
    if not any(scan.rows is not None for scan in scans):
        yield None
        return
    with lake.scratch_folder() as folder:
        yield folder
