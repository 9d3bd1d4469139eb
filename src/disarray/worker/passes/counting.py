"""What a commit adds to the figures: what arrived, how late it was, and what it cost to mend."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.control import catalog
from disarray.control.commits import CommitFigures
from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.fingerprints import NO_LINES, LineCounts
from disarray.model.fragments import FragmentState
from disarray.worker.passes.work_order import is_arrival

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.engine.jobs.scan_job import ScannedSegment
    from disarray.model.fragments import FragmentEntry
    from disarray.model.plan import SubjectPlan
    from disarray.worker.passes.work import Work


def commit_figures(
    connection: Connection,
    *,
    work: Sequence[Work],
    plans: Sequence[SubjectPlan],
    scanned: Mapping[tuple[str, str, int], ScannedSegment],
) -> CommitFigures:
    """The figures of one commit; asks the catalog as it is before it."""
    arrived = [each for each in work if each.is_read and all(map(is_arrival, each.assignment.orders))]
    uris = {each.item.file_uri for each in arrived}
    lines = sum((_lines(each) for each in arrived), start=NO_LINES)
    parked = late = repaired = more_duplicates = 0
    lateness: list[float] = []
    parked_uris = {
        each.item.file_uri
        for each in work
        if each.outcome is not None and each.outcome.status is ReadStatus.PARKED
    }
    for plan in plans:
        added = [fragment for fragment in plan.changes.added if fragment.source_uri in uris]
        if not added:
            continue
        high_us = catalog.high_event_us(connection, plan.dataset, plan.subject_key)
        behind = [
            fragment
            for fragment in added
            if fragment.state is FragmentState.ACTIVE and high_us is not None and fragment.last_us < high_us
        ]
        waiting = [fragment for fragment in added if fragment.state is FragmentState.PARKED]
        parked += sum(fragment.readings for fragment in waiting)
        parked_uris |= {fragment.source_uri for fragment in waiting}
        if plan.rebuild is not None:
            # All of the subject is made anew: what of that is due to these files cannot be told.
            continue
        late += sum(fragment.readings for fragment in behind)
        mended = {fragment.segment_us for fragment in behind}
        repaired += sum(unit.readings for unit in plan.units if unit.segment_us in mended)
        more_duplicates += _more_duplicates(connection, plan, scanned)
        lateness += _lateness(added, high_us)
    # A duplicate may win over the one that was there: counted is by how much they grew, of what arrived.
    duplicate = min(more_duplicates, lines.kept - parked)
    return CommitFigures(
        files_read=sum(each.assignment.part is None for each in arrived),
        files_unchanged=sum(
            each.outcome is not None and each.outcome.status is ReadStatus.UNCHANGED for each in work
        ),
        files_parked=len(parked_uris),
        # An unterminated last line is seen when it is read.
        readings_seen=lines.seen - lines.waiting,
        readings_kept=lines.kept - parked - duplicate,
        readings_duplicate=duplicate,
        readings_rejected=lines.rejected,
        readings_parked=parked,
        lines_blank=lines.blank + lines.preamble,
        readings_scanned=sum(unit.readings for plan in plans for unit in plan.units),
        segments_scanned=sum(len(plan.units) for plan in plans),
        late_readings=late,
        repair_readings=repaired,
        lateness=lateness,
    )


def _lines(work: Work) -> LineCounts:
    """The lines that are counted with an item: readings of a file that is split are counted with its parts."""
    assert work.outcome is not None
    counts = work.outcome.counts
    return replace(counts, seen=counts.seen - counts.kept, kept=0) if work.assignment.is_split else counts


def _more_duplicates(
    connection: Connection, plan: SubjectPlan, scanned: Mapping[tuple[str, str, int], ScannedSegment]
) -> int:
    touched = [unit.segment_us for unit in plan.units]
    if not touched:
        return 0
    known = catalog.load_segments(
        connection, plan.dataset, plan.subject_key, from_us=min(touched), to_us=max(touched)
    )
    before = {segment.segment_us: segment.duplicates for segment in known}
    return sum(
        max(
            0,
            scanned[plan.dataset, plan.subject_key, segment_us].segment["duplicates"]
            - before.get(segment_us, 0),
        )
        for segment_us in touched
    )


def _lateness(added: Sequence[FragmentEntry], high_us: int | None) -> list[float]:
    """Seconds by which the last reading of each file lies behind the newest one of the subject."""
    if high_us is None:
        return [0.0] * len({fragment.source_uri for fragment in added})
    last_us: dict[str, int] = {}
    for fragment in added:
        last_us[fragment.source_uri] = max(
            last_us.get(fragment.source_uri, fragment.last_us), fragment.last_us
        )
    return [max(0, high_us - us) / 1e6 for us in last_us.values()]
