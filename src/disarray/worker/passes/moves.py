"""Files that are about another subject or dataset than the item says, or than their readings are kept for.

An item is worked on under the lock of the subject that its file is about, so one that was announced for another is
handed over. There the file is read whole, and the commit that takes it in notes for every other dataset and subject
that has readings of it that they are to leave: each of these drops them in a commit of its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from disarray.control import definitions, moving_files
from disarray.control.commits import LeavingFile
from disarray.control.moving_files import HandOver
from disarray.errors import SubjectMissingError
from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.description.dataset import SubjectKind
from disarray.model.matching import subject_from_preamble
from disarray.model.seam import Replacement
from disarray.worker.passes.assignment import reads_nothing
from disarray.worker.passes.work_order import RemoveFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.control.moving_files import Home
    from disarray.control.queue import QueueItem
    from disarray.model.description.dataset import Dataset
    from disarray.worker.passes.assignment import Assignment
    from disarray.worker.passes.rebuilding import Rebuild, SubjectOfDataset
    from disarray.worker.passes.work import Work


@dataclass(frozen=True, slots=True)
class Moves:
    """What a batch has to know of moves: where its files have readings, and which are to leave its subjects.

    `decided` is what is still to be done to earlier generations of files that are about other subjects by now.
    """

    homes: Mapping[str, Sequence[Home]] = field(default_factory=dict)
    leaving: Mapping[SubjectOfDataset, Mapping[str, int | None]] = field(default_factory=dict)
    decided: Mapping[SubjectOfDataset, Mapping[str, str]] = field(default_factory=dict)


def load_moves(connection: Connection, items: Sequence[QueueItem]) -> Moves:
    """One look for the whole batch."""
    homes = moving_files.load_file_homes(
        connection, [item.source_uri for item in items if item.source_uri is not None]
    )
    leaving: dict[SubjectOfDataset, dict[str, int | None]] = defaultdict(dict)
    decided: dict[SubjectOfDataset, dict[str, str]] = defaultdict(dict)
    for each in moving_files.load_moving_files(connection, sorted({item.subject_key for item in items})):
        if each.decision is not None:
            decided[each.dataset, each.subject_key][each.source_uri] = each.decision
        elif not each.is_arriving:
            leaving[each.dataset, each.subject_key][each.source_uri] = each.generation
    return Moves(homes, leaving, decided)


def load_former_datasets(
    connection: Connection, items: Sequence[QueueItem], configured: Mapping[str, Dataset]
) -> dict[str, Dataset]:
    """Datasets that items are about and the project no longer describes: their readings may have to leave."""
    named = {item.dataset for item in items if item.source_uri is None and item.dataset}
    found = {}
    for name in sorted(named - configured.keys()):
        version = definitions.definition_in_force(connection, name)
        if version is not None:
            found[name] = definitions.load_definition(connection, name, version)
    return found


def find_foreign(assignments: Sequence[Assignment], moves: Moves) -> list[HandOver]:
    """Items whose files are about other subjects, as far as that can be told without a look into them."""
    return [
        HandOver(each.item.queue_id, target, each.dataset.name)
        for each in assignments
        if each.dataset is not None and (target := _target(each, moves)) != each.item.subject_key
    ]


def judge_subjects(
    work: Sequence[Work], rebuilds: Mapping[SubjectOfDataset, Rebuild]
) -> tuple[list[Work], list[HandOver]]:
    """The work that is about its subject, and the items whose files say that they are about another.

    A file that says nothing of the kind fails. One that a rebuild reads again is moved by the rebuild.
    """
    own: list[Work] = []
    foreign: list[HandOver] = []
    for each in work:
        dataset, outcome, uri = each.assignment.dataset, each.outcome, each.item.source_uri
        if (
            dataset is None
            or dataset.subject.kind is not SubjectKind.PREAMBLE
            or outcome is None
            or outcome.fingerprint is None
            or outcome.status not in (ReadStatus.READ, ReadStatus.UNCHANGED)
        ):
            own.append(each)
            continue
        try:
            subject = subject_from_preamble(
                each.item.file_uri, dataset, dict(outcome.fingerprint.end.state.fields)
            )
        except SubjectMissingError as error:
            failed = replace(outcome, status=ReadStatus.FAILED, message=str(error), is_retryable=True)
            own.append(replace(each, outcome=failed))
            continue
        rebuild = rebuilds.get((dataset.name, each.item.subject_key))
        if subject == each.item.subject_key or (rebuild is not None and uri in rebuild.files):
            own.append(each)
        else:
            foreign.append(HandOver(each.item.queue_id, subject, dataset.name))
    return own, foreign


def leaving_files(work: Sequence[Work], subject_key: str, moves: Moves) -> list[LeavingFile]:
    """What is to leave other datasets and subjects once the work on this one is committed."""
    found = []
    for each in work:
        dataset, outcome, uri = each.assignment.dataset, each.outcome, each.item.source_uri
        if uri is None:
            continue
        here = None if dataset is None else (dataset.name, subject_key)
        elsewhere = [
            home
            for home in moves.homes.get(uri, ())
            if (home.dataset, home.subject_key) != here and not home.is_sealed
        ]
        if each.assignment.asks_for(RemoveFile):
            generation = None
        elif (
            each.is_read
            and outcome is not None
            and outcome.fingerprint is not None
            # Of a file that was read in part, the rest may be what is elsewhere.
            and outcome.seam_position == 0
            and outcome.replacement is not Replacement.NEW_GENERATION
        ):
            # Earlier generations cannot be read again, and stay where they were counted.
            generation = outcome.fingerprint.generation
            elsewhere = [home for home in elsewhere if home.generation == generation]
        else:
            continue
        first: dict[SubjectOfDataset, int] = {}
        for home in elsewhere:
            there = home.dataset, home.subject_key
            first[there] = min(first.get(there, home.first_us), home.first_us)
        found += [
            LeavingFile(
                source_uri=uri, dataset=name, subject_key=subject, generation=generation, first_us=first_us
            )
            for (name, subject), first_us in first.items()
        ]
    return found


def _target(assignment: Assignment, moves: Moves) -> str:
    item = assignment.item
    if item.source_uri is None or assignment.asks_for(RemoveFile):
        return item.subject_key
    if assignment.subject is not None:
        return assignment.subject
    homes = [home for home in moves.homes.get(item.source_uri, ()) if not home.is_sealed]
    if reads_nothing(assignment) and homes and all(home.subject_key != item.subject_key for home in homes):
        return homes[-1].subject_key
    return item.subject_key
