"""Job 1 of a pass: the files of its items, and those that a change of definition makes be read again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from disarray.control import catalog, status
from disarray.engine.jobs.read_job import find_missing, read_files
from disarray.kernels.reading.outcome import ReadReason, ReadRequest
from disarray.worker.passes.assignment import path_of, read_request
from disarray.worker.passes.rebuilding import lost_files
from disarray.worker.passes.restoring import files_with_fragments
from disarray.worker.passes.work import Work
from disarray.worker.passes.work_order import AllowFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.control.moving_files import Home
    from disarray.control.queue import QueueId
    from disarray.engine.jobs.read_job import ReadJobResult
    from disarray.engine.runner import Runner
    from disarray.errors import RebuildBlockedError
    from disarray.kernels.reading.outcome import ReadOutcome
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

    def without(
        self, blocked: Mapping[SubjectOfDataset, object], assignments: Sequence[Assignment]
    ) -> BatchRequests:
        """The requests that are left when some subjects are not worked on."""
        left_out = {
            each.item.queue_id
            for each in assignments
            if each.dataset_subject is not None and each.dataset_subject in blocked
        }
        return BatchRequests(
            {queue_id: request for queue_id, request in self.of_items.items() if queue_id not in left_out},
            {file: request for file, request in self.read_again.items() if file[:2] not in blocked},
            self.restored,
        )


@dataclass(frozen=True, slots=True)
class BatchRead:
    """What job 1 brought back."""

    job: ReadJobResult
    work: list[Work]
    read_again: Mapping[SubjectOfDataset, Mapping[str, ReadOutcome]]


def batch_requests(
    connection: Connection,
    assignments: Sequence[Assignment],
    rebuilds: Mapping[SubjectOfDataset, Rebuild],
    homes: Mapping[str, Sequence[Home]],
) -> BatchRequests:
    """What to read for a batch; items for which nothing is to be read are left out.

    `homes` are the datasets and subjects that the files have readings in: elsewhere, these are of no use here.
    """
    uris = [each.source_uri for each in assignments if each.source_uri is not None]
    known = catalog.load_fingerprints(connection, uris)
    now_us = status.current_us(connection)
    kept = files_with_fragments(connection, assignments)
    of_items = {}
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
            must_read_again=each.asks_for(AllowFile) and uri not in kept,
            is_moved=stored is not None
            and any(
                home.generation == stored.generation
                and (home.dataset, home.subject_key) != each.dataset_subject
                for home in homes.get(uri, ())
            ),
        )
        if request is not None:
            of_items[each.item.queue_id] = request
    has_item = {
        (*each.dataset_subject, each.source_uri) for each in assignments if each.dataset_subject is not None
    }
    read_again = {
        (*key, uri): ReadRequest.for_dataset(
            rebuild.dataset, path_of(uri), reason=ReadReason.REINGEST, now_us=now_us, stored=stored
        )
        for key, rebuild in rebuilds.items()
        for uri, stored in rebuild.files.items()
        if (*key, uri) not in has_item
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
) -> BatchRead:
    """Read all of it in one job."""
    asked = [*requests.of_items.values(), *requests.read_again.values()]
    job = read_files(runner, asked, lake=lake, run_id=run_id)
    outcomes = dict(zip(requests.of_items, job.outcomes, strict=False))
    read_again: dict[SubjectOfDataset, dict[str, ReadOutcome]] = {}
    for (name, subject, uri), outcome in zip(
        requests.read_again, job.outcomes[len(requests.of_items) :], strict=True
    ):
        read_again.setdefault((name, subject), {})[uri] = outcome
    work = [
        Work(
            assignment,
            outcomes.get(assignment.item.queue_id),
            restores=assignment.item.source_uri in requests.restored,
        )
        for assignment in assignments
    ]
    return BatchRead(job, work, read_again)
