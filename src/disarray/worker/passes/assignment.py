"""From claimed items to what has to be read, removed or released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from disarray.control.files import Reason
from disarray.errors import DatasetOverlapError, SubjectMissingError
from disarray.kernels.reading.outcome import ReadOutcome, ReadReason, ReadRequest, ReadStatus
from disarray.model.description.dataset import OnShrink
from disarray.model.matching import match_file
from disarray.model.plan import FileChange, FragmentEntry
from disarray.model.seam import Replacement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.queue import QueueItem
    from disarray.model.description.dataset import Dataset
    from disarray.model.fingerprints import Fingerprint
    from disarray.store.lake import Lake

# Reasons for which the whole file is read again, whatever is known of it.
_READ_AGAIN = frozenset({Reason.REINGEST, Reason.REBUILD})
# Reasons that need no look at the file.
_READ_NOTHING = frozenset({Reason.PREVIEW, Reason.COMPACT, Reason.COPY, Reason.RECONCILE, Reason.RELEASE})


@dataclass(frozen=True, slots=True)
class Assignment:
    """A claimed item with the dataset that its file belongs to; `problem` says why a file has none that can be used.

    `subject` is what the path of the file says it is about, None where only its content can tell.
    """

    item: QueueItem
    dataset: Dataset | None
    subject: str | None = None
    problem: str | None = None

    @property
    def reasons(self) -> frozenset[Reason]:
        """Why it is here: a row that others merged into has several reasons."""
        merged = self.item.metadata.get("reasons", [])
        return frozenset(Reason(text) for text in (self.item.reason, *merged))

    @property
    def place(self) -> tuple[str, str] | None:
        """The dataset and subject that it works on, None where it is about all datasets of a subject."""
        return None if self.dataset is None else (self.dataset.name, self.item.subject_key)

    @property
    def asks_for_the_file_as_it_is(self) -> bool:
        """Whether somebody wants what the file says now, though it may be less than before."""
        return self.releases_version or bool(self.reasons & {Reason.REINGEST, Reason.ALLOW})

    @property
    def is_allowed(self) -> bool:
        """Whether the file was blacklisted, and what it said before is to count again."""
        return Reason.ALLOW in self.reasons

    @property
    def is_removal(self) -> bool:
        """Whether the file is to count for nothing."""
        return self.item.reason == Reason.REMOVE

    @property
    def releases_readings(self) -> bool:
        """Whether parked readings of the file are to count; they lie in the lake, the file may be gone."""
        return Reason.RELEASE in self.reasons and (
            bool(self.item.metadata.get("release_readings"))
            or self.item.metadata.get("release") == "readings"
        )

    @property
    def releases_version(self) -> bool:
        """Whether a version that says less than the one before is to take its place."""
        return Reason.RELEASE in self.reasons and (
            bool(self.item.metadata.get("release_version")) or self.item.metadata.get("release") == "version"
        )

    @property
    def is_housekeeping(self) -> bool:
        """Whether the subject is to be sealed and compacted; that changes no number and comes after what does."""
        return not self.is_about_a_file and self.item.reason == Reason.COMPACT

    @property
    def is_about_a_file(self) -> bool:
        """Whether there is a file behind it."""
        return not self.item.source_uri.startswith("subject:")


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
    dataset, reasons = assignment.dataset, assignment.reasons
    if dataset is None or assignment.is_removal or not assignment.is_about_a_file:
        return None
    if reads_nothing(assignment) and not must_read and not is_moved:
        return None
    if reasons & _READ_AGAIN or must_read_again:
        why = ReadReason.REINGEST
    elif Reason.QUIET in reasons or assignment.releases_version:
        why = ReadReason.QUIET
    else:
        why = ReadReason.NOTIFICATION
    request = ReadRequest.for_dataset(
        dataset, path_of(assignment.item.source_uri), reason=why, now_us=now_us, stored=stored
    )
    request = replace(request, is_moved=is_moved)
    return replace(request, on_shrink=OnShrink.REPLACE) if assignment.releases_version else request


def reads_nothing(assignment: Assignment) -> bool:
    """Whether an item by itself asks for no look at its file."""
    return assignment.reasons <= _READ_NOTHING and not assignment.releases_version


def file_change(assignment: Assignment, outcome: ReadOutcome | None, lake: Lake) -> FileChange | None:
    """What an item does to the catalog; None where it does nothing."""
    uri = assignment.item.source_uri
    if assignment.is_removal:
        return FileChange(source_uri=uri, generation=0, seam_position=None, is_removed=True)
    is_released, is_allowed = assignment.releases_readings, assignment.is_allowed
    change = read_change(uri, outcome, lake)
    if change is not None:
        return replace(
            change,
            is_released=is_released,
            is_allowed=is_allowed,
            is_replaced=assignment.releases_version,
            # Somebody asked for these by name; what comes by itself is held against the horizon.
            ignores_horizon=assignment.releases_version or Reason.BACKFILL in assignment.reasons,
        )
    if is_released or is_allowed:
        return FileChange(
            source_uri=uri,
            generation=0,
            seam_position=None,
            is_released=is_released,
            is_allowed=is_allowed,
        )
    return None


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
                segment_us=fragment.segment_start_us,
                source_uri=source_uri,
                generation=generation,
                path=lake.relative(fragment.file),
                row_group=fragment.row_group,
                readings=fragment.rows,
                first_position=fragment.first_position,
                last_position=fragment.last_position,
                first_us=fragment.first_us,
                last_us=fragment.last_us,
                digest=fragment.digest,
            )
            for fragment in outcome.fragments
        ),
    )


def path_of(source_uri: str) -> str:
    """The path behind a uri."""
    return unquote(source_uri.removeprefix("file://")) if source_uri.startswith("file://") else source_uri


def _assigned(item: QueueItem, datasets: Mapping[str, Dataset], others: Mapping[str, Dataset]) -> Assignment:
    whole = Assignment(item, datasets.get(item.dataset or "") or others.get(item.dataset or ""))
    if not whole.is_about_a_file:
        return whole
    try:
        match = match_file(item.source_uri, list(datasets.values()))
    except (DatasetOverlapError, SubjectMissingError) as error:
        return Assignment(item, None, problem=str(error))
    return Assignment(item, None) if match is None else Assignment(item, match.dataset, match.subject)
