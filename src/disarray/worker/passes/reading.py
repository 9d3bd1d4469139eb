"""Job 1 of a pass: the files of its items, and those that a change of definition makes be read again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from disarray.control import catalog, status
from disarray.engine.jobs.read_job import find_missing, read_files
from disarray.kernels.reading.outcome import ReadReason, ReadRequest
from disarray.model.file_parts import part_name
from disarray.model.uris import file_path
from disarray.worker.passes.assignment import read_request
from disarray.worker.passes.parts import (
    delivered_outcome,
    delivery_to_take,
    load_deliveries,
    load_parents,
    unchanged_part,
)
from disarray.worker.passes.rebuilding import lost_files
from disarray.worker.passes.restoring import files_with_fragments
from disarray.worker.passes.resyncing import StagedSwap, staged_requests
from disarray.worker.passes.work import Work
from disarray.worker.passes.work_order import AllowFile, ResyncSubject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.control.file_parts import PartDelivery
    from disarray.control.moving_files import Home
    from disarray.control.queue import QueueId
    from disarray.control.resyncs import GenerationSwap
    from disarray.engine.jobs.read_job import ReadJobResult
    from disarray.engine.runner import Runner
    from disarray.errors import RebuildBlockedError
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.read_spec import ReadSpec
    from disarray.store.lake import Lake
    from disarray.worker.passes.assignment import Assignment
    from disarray.worker.passes.rebuilding import Rebuild, SubjectOfDataset

FileOfSubject = tuple[str, str, str]  # dataset, subject, uri


@dataclass(frozen=True, slots=True)
class BatchRequests:
    """What a batch asks job 1 for: files of items, by item, and files that are read again without one."""

    of_items: Mapping[QueueId, ReadRequest]
    read_again: Mapping[FileOfSubject, ReadRequest] = field(default_factory=dict)
    restored: frozenset[str] = frozenset()  # files that are allowed again and of which fragments are kept
    waiting: Mapping[str, Sequence[PartDelivery]] = field(default_factory=dict)  # for parts, by uri
    delivered: Mapping[QueueId, PartDelivery] = field(default_factory=dict)  # what of it is taken in now
    unchanged: Mapping[QueueId, ReadOutcome] = field(default_factory=dict)  # parts for which nothing waits
    staged: Mapping[FileOfSubject, ReadRequest] = field(default_factory=dict)  # of generations to be swapped

    def without(
        self, blocked: Mapping[SubjectOfDataset, object], assignments: Sequence[Assignment]
    ) -> BatchRequests:
        """The requests that are left when some subjects are not worked on."""
        left_out = {
            each.item.queue_id
            for each in assignments
            if each.dataset_subject is not None and each.dataset_subject in blocked
        }
        return replace(
            self,
            of_items={
                queue_id: request for queue_id, request in self.of_items.items() if queue_id not in left_out
            },
            read_again={
                file: request for file, request in self.read_again.items() if file[:2] not in blocked
            },
            delivered={
                queue_id: delivery
                for queue_id, delivery in self.delivered.items()
                if queue_id not in left_out
            },
        )


@dataclass(frozen=True, slots=True)
class BatchRead:
    """What job 1 brought back."""

    job: ReadJobResult
    work: list[Work]
    read_again: Mapping[SubjectOfDataset, Mapping[str, ReadOutcome]]
    waiting: Mapping[str, Sequence[PartDelivery]] = field(default_factory=dict)  # for parts, by uri
    taken: Mapping[str, PartDelivery] = field(default_factory=dict)  # what of it was taken in, by uri
    swaps: Mapping[SubjectOfDataset, StagedSwap] = field(default_factory=dict)


def batch_requests(
    connection: Connection,
    assignments: Sequence[Assignment],
    rebuilds: Mapping[SubjectOfDataset, Rebuild],
    homes: Mapping[str, Sequence[Home]],
    *,
    swaps: Mapping[SubjectOfDataset, GenerationSwap],
    datasets: Mapping[str, Dataset],
) -> BatchRequests:
    """What to read for a batch; items for which nothing is to be read are left out.

    `homes` are the datasets and subjects that the files have readings in: elsewhere, these are of no use here.
    """
    uris = [each.source_uri for each in assignments if each.source_uri is not None]
    known = catalog.load_fingerprints(connection, uris)
    now_us = status.current_us(connection)
    kept = files_with_fragments(connection, assignments)
    waiting = load_deliveries(connection, assignments)
    parents = load_parents(
        connection,
        assignments,
        also=[uri for rebuild in rebuilds.values() for uri in rebuild.files if part_name(uri) is not None],
    )
    of_items = {}
    delivered: dict[QueueId, PartDelivery] = {}
    unchanged: dict[QueueId, ReadOutcome] = {}
    for each in assignments:
        rebuild = rebuilds.get(each.dataset_subject) if each.dataset_subject is not None else None
        uri = each.source_uri
        if uri is None:
            continue
        stored = known.get(uri)
        request = read_request(
            each,
            stored=stored,
            now_us=now_us,
            must_read=rebuild is not None and uri in rebuild.files,
            must_read_again=each.asks_for(AllowFile)
            and uri not in kept
            # What its parts said is kept with these.
            and not (each.is_split and stored is not None),
            is_moved=stored is not None
            and any(
                home.generation == stored.generation
                and (home.dataset, home.subject_key) != each.dataset_subject
                # What is sealed there never leaves: read whole once, when the file does.
                and (home.is_known or not home.is_sealed)
                for home in homes.get(uri, ())
            ),
        )
        if request is None:
            continue
        queue_id = each.item.queue_id
        if each.part is None:
            of_items[queue_id] = request
            continue
        assert each.dataset is not None
        is_rebuilt = rebuild is not None and uri in rebuild.files
        delivery = None if is_rebuilt else delivery_to_take(each, waiting.get(uri, ()), request, each.dataset)
        if delivery is not None:
            delivered[queue_id] = delivery
        elif not waiting.get(uri) and stored is not None and request.reason is not ReadReason.REINGEST:
            unchanged[queue_id] = unchanged_part(uri, stored)
        else:
            of_items[queue_id] = replace(request, reason=ReadReason.REINGEST, stored=parents.get(uri, stored))
    has_item = {
        (*each.dataset_subject, each.source_uri) for each in assignments if each.dataset_subject is not None
    }
    read_again = {
        (*key, uri): replace(
            ReadRequest.for_dataset(
                rebuild.dataset,
                file_path(uri),
                reason=ReadReason.REINGEST,
                now_us=now_us,
                stored=parents.get(uri, stored),
            ),
            only_subject=None if part_name(uri) is None else key[1],
        )
        for key, rebuild in rebuilds.items()
        for uri, stored in rebuild.files.items()
        if (*key, uri) not in has_item
    }
    staged = {
        file: request
        for swap in swaps.values()
        for file, request in staged_requests(swap, datasets[swap.dataset], now_us=now_us).items()
    }
    # One and the same object travels to a task once, however many files it is for.
    specs: dict[tuple[str, str], ReadSpec] = {}

    def lighter(request: ReadRequest) -> ReadRequest:
        own = request.spec
        return replace(request, spec=specs.setdefault((own.dataset, own.parse_version), own))

    return BatchRequests(
        {queue_id: lighter(request) for queue_id, request in of_items.items()},
        {file: lighter(request) for file, request in read_again.items()},
        kept,
        waiting,
        delivered,
        unchanged,
        {file: lighter(request) for file, request in staged.items()},
    )


def find_blocked(runner: Runner, requests: BatchRequests) -> dict[SubjectOfDataset, RebuildBlockedError]:
    """Rebuilds of which a file is gone: a look at each file, before thousands of others are read for nothing."""
    missing = find_missing(runner, list(requests.read_again.values()))
    gone: dict[SubjectOfDataset, dict[str, str]] = {}
    for (name, subject, uri), request in requests.read_again.items():
        if request.path in missing:
            gone.setdefault((name, subject), {})[uri] = "the file is gone"
    return {key: lost_files(lost) for key, lost in gone.items()}


def read_batch(
    runner: Runner,
    assignments: Sequence[Assignment],
    requests: BatchRequests,
    *,
    lake: Lake,
    run_id: UUID,
    swaps: Mapping[SubjectOfDataset, GenerationSwap],
) -> BatchRead:
    """Read all of it in one job."""
    asked = [*requests.of_items.values(), *requests.read_again.values(), *requests.staged.values()]
    job = read_files(runner, asked, lake=lake, run_id=run_id)
    without_item = len(requests.of_items)
    first_staged = without_item + len(requests.read_again)
    outcomes = dict(zip(requests.of_items, job.outcomes[:without_item], strict=True))
    outcomes |= requests.unchanged
    outcomes |= {
        queue_id: delivered_outcome(delivery, lake) for queue_id, delivery in requests.delivered.items()
    }
    read_again: dict[SubjectOfDataset, dict[str, ReadOutcome]] = {}
    for (name, subject, uri), outcome in zip(
        requests.read_again, job.outcomes[without_item:first_staged], strict=True
    ):
        read_again.setdefault((name, subject), {})[uri] = outcome
    staged: dict[SubjectOfDataset, dict[str, ReadOutcome]] = {key: {} for key in swaps}
    for (name, subject, uri), outcome in zip(requests.staged, job.outcomes[first_staged:], strict=True):
        staged[name, subject][uri] = outcome
    staged_swaps = {key: StagedSwap(swap, staged[key]) for key, swap in swaps.items()}
    work = [
        Work(
            assignment,
            outcomes.get(assignment.item.queue_id),
            restores=assignment.item.source_uri in requests.restored,
            problem=_swap_problem(assignment, staged_swaps),
        )
        for assignment in assignments
    ]
    taken = {delivery.part_uri: delivery for delivery in requests.delivered.values()}
    return BatchRead(job, work, read_again, requests.waiting, taken, staged_swaps)


def _swap_problem(assignment: Assignment, swaps: Mapping[SubjectOfDataset, StagedSwap]) -> str | None:
    if assignment.dataset_subject is None or not assignment.asks_for(ResyncSubject):
        return None
    found = swaps.get(assignment.dataset_subject)
    return None if found is None else found.problem
