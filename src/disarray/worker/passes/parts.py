"""Parts of files about several subjects: what a split found out is delivered to them, and taken in from there.

A part is never compared with the bytes of its file. What is new of it comes with the split of the file; where all of it
is wanted, the file is read once more and all that is about others is passed over.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from disarray.control import file_parts
from disarray.control.file_parts import PartDelivery
from disarray.kernels.fragments.fragment_writer import Fragment
from disarray.kernels.reading.outcome import ReadOutcome, ReadStatus, part_outcome
from disarray.kernels.reading.splitting import PartRead
from disarray.model.file_parts import part_uri
from disarray.model.fingerprints import LineCounts, PartMark
from disarray.model.seam import Change, Replacement
from disarray.model.uris import file_path
from disarray.worker.passes.work_order import ReadFile, ReadMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.kernels.reading.outcome import ReadRequest
    from disarray.model.description.dataset import Dataset
    from disarray.model.fingerprints import Fingerprint
    from disarray.store.lake import Lake
    from disarray.worker.passes.assignment import Assignment
    from disarray.worker.passes.work import Work


def load_deliveries(
    connection: Connection, assignments: Iterable[Assignment]
) -> dict[str, list[PartDelivery]]:
    """What waits for the parts among some items, by uri, oldest first."""
    parts = [(each.item.file_uri, each.item.subject_key) for each in assignments if each.part is not None]
    return file_parts.load_part_deliveries(connection, parts) if parts else {}


def load_parents(
    connection: Connection, assignments: Iterable[Assignment], also: Iterable[str] = ()
) -> dict[str, Fingerprint]:
    """What is remembered of the files that parts are parts of, by part."""
    parts = [each.item.file_uri for each in assignments if each.part is not None]
    wanted = sorted({*parts, *also})
    return file_parts.load_part_parents(connection, wanted) if wanted else {}


def delivery_to_take(
    assignment: Assignment, waiting: Sequence[PartDelivery], request: ReadRequest, dataset: Dataset
) -> PartDelivery | None:
    """What of it to take in now; None where the file has to be read for the part.

    One delivery at a time, and what one that says everything replaces need not be taken in before it.
    """
    if not waiting or any(each.fingerprint.parse_version != dataset.parse_version for each in waiting):
        return None
    first = waiting[0]
    whole = [
        each
        for each in waiting
        if each.is_whole and each.fingerprint.generation == first.fingerprint.generation
    ]
    modes = {order.mode for order in assignment.orders if isinstance(order, ReadFile)}
    if whole:
        return whole[-1]
    is_all_wanted = request.is_moved or bool(modes & {ReadMode.WHOLE, ReadMode.AGAIN})
    return None if is_all_wanted else first


def delivered_outcome(delivery: PartDelivery, lake: Lake) -> ReadOutcome:
    """What a read of the part would have given."""
    fragments = tuple(Fragment(**(row | {"path": lake.absolute(row["path"])})) for row in delivery.fragments)
    read = sum(fragment.readings for fragment in fragments)
    return ReadOutcome(
        path=file_path(delivery.part_uri),
        status=ReadStatus.READ,
        change=Change(delivery.change),
        replacement=Replacement(delivery.replacement),
        seam_position=delivery.seam_position,
        counts=LineCounts(seen=read, kept=read),
        fingerprint=delivery.fingerprint,
        fragments=fragments,
    )


def unchanged_part(source_uri: str, stored: Fingerprint) -> ReadOutcome:
    """The outcome of a part for which nothing waits."""
    return ReadOutcome(
        path=file_path(source_uri),
        status=ReadStatus.UNCHANGED,
        change=Change.UNCHANGED,
        seam_position=stored.size,
        fingerprint=stored,
    )


def split_files(connection: Connection, work: Sequence[Work], lake: Lake) -> list[PartDelivery]:
    """What the files among some work deliver to their parts; a file that is about one subject by now, takes it away."""
    read = [each for each in work if each.is_read and each.assignment.part is None]
    whole = [
        each.item.file_uri
        for each in read
        if each.outcome is not None
        and each.outcome.seam_position == 0
        and each.outcome.replacement is not Replacement.NEW_GENERATION
    ]
    known = file_parts.load_file_parts(connection, whole) if whole else {}
    found: list[PartDelivery] = []
    for each in read:
        assert each.outcome is not None
        uri, dataset = each.item.file_uri, each.assignment.dataset
        assert dataset is not None
        parts = {}
        if each.outcome.parts is not None and dataset.subject_column is not None:
            column = dataset.subject_column
            parts = {
                part_uri(uri, column=column, subject_key=part.subject_key): part
                for part in each.outcome.parts
            }
        for former in known.get(uri, ()):
            # It says nothing of this subject any more, or by another column.
            parts.setdefault(former.part_uri, PartRead(PartMark(subject_key=former.subject_key)))
        found += [
            _delivery(own_uri, uri, part, each.outcome, lake) for own_uri, part in sorted(parts.items())
        ]
    return found


def split_work(work: Work) -> list[Work]:
    """The work on a file as its parts will do it, one after the other; on a file about one subject, itself."""
    dataset, outcome = work.assignment.dataset, work.outcome
    if not work.is_read or outcome is None or outcome.parts is None or dataset is None:
        return [work]
    assert dataset.subject_column is not None
    parts = []
    for part in outcome.parts:
        uri = part_uri(work.item.file_uri, column=dataset.subject_column, subject_key=part.subject_key)
        item = replace(work.item, source_uri=uri, subject_key=part.subject_key)
        parts.append(
            replace(
                work,
                assignment=replace(work.assignment, item=item, subject=part.subject_key),
                outcome=part_outcome(outcome, part),
            )
        )
    return parts


def superseded_deliveries(
    waiting: Mapping[str, Sequence[PartDelivery]], taken: Mapping[str, PartDelivery], work: Sequence[Work]
) -> list[PartDelivery]:
    """What no longer waits once the work is committed: what was taken in, or all, where the file was read itself."""
    gone = []
    for each in work:
        uri = each.item.source_uri
        if uri is None or not each.is_read or each.outcome is None or not waiting.get(uri):
            continue
        if uri in taken:
            gone.append(taken[uri])
        elif each.outcome.fingerprint is not None:
            gone.append(replace(waiting[uri][-1], fingerprint=each.outcome.fingerprint))
    return gone


def _delivery(
    own_uri: str, parent_uri: str, part: PartRead, outcome: ReadOutcome, lake: Lake
) -> PartDelivery:
    own = part_outcome(outcome, part)
    assert own.fingerprint is not None
    return PartDelivery(
        part_uri=own_uri,
        parent_uri=parent_uri,
        subject_key=part.subject_key,
        seam_position=outcome.seam_position,
        change=outcome.change.value,
        replacement=outcome.replacement.value,
        fragments=[asdict(fragment) | {"path": lake.relative(fragment.path)} for fragment in part.fragments],
        fingerprint=own.fingerprint,
    )
