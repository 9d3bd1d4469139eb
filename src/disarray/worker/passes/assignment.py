"""From claimed items to what has to be read, removed or released."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from disarray.errors import DatasetOverlapError, SubjectMissingError
from disarray.kernels.reading.outcome import ReadOutcome, ReadReason, ReadRequest, ReadStatus
from disarray.model.catalog_changes import FileChange
from disarray.model.description.dataset import OnShrink
from disarray.model.file_parts import part_name
from disarray.model.fragments import FragmentEntry
from disarray.model.matching import match_file
from disarray.model.seam import Replacement
from disarray.model.uris import file_path
from disarray.worker.passes.work_order import (
    AllowFile,
    ReadFile,
    ReadMode,
    ReleaseReadings,
    ReleaseVersion,
    RemoveFile,
    looks_into_file,
    orders_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.queue import QueueItem
    from disarray.model.description.dataset import Dataset
    from disarray.model.file_parts import PartName
    from disarray.model.fingerprints import Fingerprint
    from disarray.store.lake import Lake
    from disarray.worker.passes.work_order import WorkOrder


@dataclass(frozen=True, slots=True)
class Assignment:
    """A claimed item with the dataset that its file belongs to; `problem` says why a file has none that can be used.

    `subject` is what the path of the file says it is about, None where only its content can tell.
    """

    item: QueueItem
    dataset: Dataset | None
    subject: str | None = None
    problem: str | None = None
    is_superseded: bool = False  # a resync took the place of its file: nothing is done to it any more
    # What is to be done: asked for twenty times on the way of one file, worked out once.
    orders: tuple[WorkOrder, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", orders_of(self.item))

    @property
    def dataset_subject(self) -> tuple[str, str] | None:
        """The dataset and subject that it works on, None where it is about all datasets of a subject."""
        return None if self.dataset is None else (self.dataset.name, self.item.subject_key)

    @property
    def source_uri(self) -> str | None:
        """The file that it is about, None where it is about a subject."""
        return self.item.source_uri

    @property
    def part(self) -> PartName | None:
        """What it is a part of, None where it is about a whole file or a subject."""
        return None if self.item.source_uri is None else part_name(self.item.source_uri)

    @property
    def is_split(self) -> bool:
        """Whether its file is about several subjects: its readings are those of its parts."""
        return (
            self.dataset is not None
            and self.dataset.subject_column is not None
            and self.item.source_uri is not None
            and self.part is None
        )

    def asks_for(self, *kinds: type) -> bool:
        """Whether one of its orders is of these kinds."""
        return any(isinstance(order, kinds) for order in self.orders)


def assign(
    items: Sequence[QueueItem],
    datasets: Mapping[str, Dataset],
    *,
    others: Mapping[str, Dataset] | None = None,
) -> list[Assignment]:
    """Each item with its dataset: that whose patterns take its file, whatever was announced.

    Work on a whole subject names its dataset, which may be one of `others` that take no files any more.
    """
    return [_assigned(item, datasets, others or {}) for item in items]


def read_request(
    assignment: Assignment,
    *,
    stored: Fingerprint | None,
    now_us: int,
    must_read: bool = False,
    must_read_again: bool = False,
    is_moved: bool = False,
) -> ReadRequest | None:
    """What to read for an item, None where nothing is to be read; `must_read` where its fragments are of no use.

    `must_read_again` where nothing is kept of what the file said, so that only its new part would not be enough.
    """
    dataset, uri = assignment.dataset, assignment.source_uri
    if dataset is None or uri is None or assignment.is_superseded or assignment.asks_for(RemoveFile):
        return None
    if reads_nothing(assignment) and not must_read and not is_moved:
        return None
    modes = {order.mode for order in assignment.orders if isinstance(order, ReadFile)}
    releases_version = assignment.asks_for(ReleaseVersion)
    # A file that moves is read whole all the same. Whether it says less than before is asked then, too: what waits for
    # an operator, or was rejected, does not come in with a move.
    is_again = ReadMode.AGAIN in modes or (ReadMode.WHOLE in modes and not is_moved)
    if is_again or must_read_again:
        why = ReadReason.REINGEST
    elif ReadMode.QUIET in modes or releases_version:
        why = ReadReason.QUIET
    else:
        why = ReadReason.NOTIFICATION
    request = ReadRequest.for_dataset(dataset, file_path(uri), reason=why, now_us=now_us, stored=stored)
    part = assignment.part
    if is_moved or part is not None:
        request = replace(request, is_moved=is_moved, only_subject=None if part is None else part.subject_key)
    return replace(request, on_shrink=OnShrink.REPLACE) if releases_version else request


def reads_nothing(assignment: Assignment) -> bool:
    """Whether an item by itself asks for no look at its file."""
    return not any(looks_into_file(order) for order in assignment.orders)


def file_change(assignment: Assignment, outcome: ReadOutcome | None, lake: Lake) -> FileChange | None:
    """What an item does to the catalog; None where it does nothing."""
    uri = assignment.source_uri
    if uri is None or assignment.is_split or assignment.is_superseded:
        return None
    if assignment.asks_for(RemoveFile):
        return FileChange(source_uri=uri, generation=0, seam_position=None, is_removed=True)
    decided = FileChange(
        source_uri=uri,
        generation=0,
        seam_position=None,
        is_released=assignment.asks_for(ReleaseReadings),
        is_allowed=assignment.asks_for(AllowFile),
    )
    change = read_change(uri, outcome, lake)
    if change is None:
        return decided if decided.is_released or decided.is_allowed else None
    releases_version = assignment.asks_for(ReleaseVersion)
    return replace(
        change,
        is_released=decided.is_released,
        is_allowed=decided.is_allowed,
        is_replaced=releases_version,
        ignores_horizon=releases_version
        or any(isinstance(order, ReadFile) and order.ignores_horizon for order in assignment.orders),
    )


def read_change(source_uri: str, outcome: ReadOutcome | None, lake: Lake) -> FileChange | None:
    """What a file says that was read; None where it was not."""
    if outcome is None or outcome.status is not ReadStatus.READ or outcome.fingerprint is None:
        return None
    generation = outcome.fingerprint.generation
    is_new_generation = outcome.replacement is Replacement.NEW_GENERATION
    return FileChange(
        source_uri=source_uri,
        generation=generation,
        seam_position=None if is_new_generation else outcome.seam_position,
        fragments=tuple(
            FragmentEntry(
                segment_us=fragment.segment_us,
                source_uri=source_uri,
                generation=generation,
                path=lake.relative(fragment.path),
                row_group=fragment.row_group,
                readings=fragment.readings,
                first_position=fragment.first_position,
                last_position=fragment.last_position,
                first_us=fragment.first_us,
                last_us=fragment.last_us,
                digest=fragment.digest,
            )
            for fragment in outcome.fragments
        ),
    )


def _assigned(item: QueueItem, datasets: Mapping[str, Dataset], others: Mapping[str, Dataset]) -> Assignment:
    if item.source_uri is None:
        return Assignment(item, datasets.get(item.dataset or "") or others.get(item.dataset or ""))
    try:
        match = match_file(item.source_uri, list(datasets.values()))
    except (DatasetOverlapError, SubjectMissingError) as error:
        return Assignment(item, None, problem=str(error))
    return Assignment(item, None) if match is None else Assignment(item, match.dataset, match.subject)
