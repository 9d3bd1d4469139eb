"""From what was read to what has to change, with one look at the catalog for each subject and dataset."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from disarray.control import catalog
from disarray.errors import OtherVersionError
from disarray.model.plan import FileChange, SubjectPlan, plan_changes, plan_scans
from disarray.worker.assignment import file_change
from disarray.worker.sharing import share_fragments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.model.dataset import Dataset
    from disarray.store.lake import Lake
    from disarray.worker.work import Work


def plan_subject(
    connection: Connection,
    subject_key: str,
    *,
    work: Sequence[Work],
    datasets: Mapping[str, Dataset],
    lake: Lake,
) -> list[SubjectPlan]:
    """What the items of one subject change, a plan for each dataset."""
    by_dataset: dict[str, list[FileChange]] = defaultdict(list)
    for each in work:
        change = file_change(each.assignment, each.outcome, lake)
        if change is not None and each.assignment.dataset is not None:
            by_dataset[each.assignment.dataset.name].append(change)
    hashes = {
        each.item.source_uri: each.outcome.fingerprint.content_hash
        for each in work
        if each.is_read and each.outcome is not None and each.outcome.fingerprint is not None
    }
    return [
        _plan(connection, datasets[name], subject_key, changes=changes, content_hashes=hashes)
        for name, changes in by_dataset.items()
    ]


def _plan(
    connection: Connection,
    dataset: Dataset,
    subject_key: str,
    *,
    changes: Sequence[FileChange],
    content_hashes: dict[str, str],
) -> SubjectPlan:
    other = catalog.find_other_version(
        connection, dataset, subject_key, read_again=[change.source_uri for change in changes]
    )
    if other is not None:
        raise OtherVersionError(
            f"{subject_key} has readings of dataset '{dataset.name}' that were {other[:40]}, under another "
            "definition. They are never mixed: nothing of the subject was changed. Restore the definition and run "
            "'disarray files reingest', or give the changed one a new dataset name"
        )
    horizon_us = dataset.horizon_us
    high_us = catalog.high_event_us(connection, dataset.name, subject_key) if horizon_us is not None else None
    planned = plan_changes(
        share_fragments(
            connection, dataset.name, subject_key, changes=changes, content_hashes=content_hashes
        ),
        catalog.load_file_fragments(connection, [change.source_uri for change in changes]),
        horizon_start_us=high_us - horizon_us if high_us is not None and horizon_us is not None else None,
    )
    touched = planned.touched_segments
    if not touched:
        return SubjectPlan(dataset=dataset.name, subject_key=subject_key, changes=planned, units=())
    segments = catalog.load_segments(
        connection, dataset.name, subject_key, from_us=touched[0], to_us=touched[-1]
    )
    units = plan_scans(
        planned,
        catalog.load_segment_fragments(connection, dataset.name, subject_key, segments=touched),
        {segment.segment_us: segment.revision for segment in segments},
    )
    return SubjectPlan(dataset=dataset.name, subject_key=subject_key, changes=planned, units=units)
