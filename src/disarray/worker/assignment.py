"""From claimed items to what has to be read, removed or released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from disarray.control.files import Reason
from disarray.kernels.outcome import ReadOutcome, ReadReason, ReadRequest, ReadStatus
from disarray.model.dataset import OnShrink
from disarray.model.matching import match_file
from disarray.model.plan import FileChange, FragmentEntry
from disarray.model.seam import Replacement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.queue import QueueItem
    from disarray.model.dataset import Dataset
    from disarray.model.fingerprints import Fingerprint
    from disarray.store.lake import Lake

# Reasons for which the whole file is read again, whatever is known of it.
_READ_AGAIN = frozenset({Reason.REINGEST, Reason.ALLOW, Reason.REBUILD})


@dataclass(frozen=True, slots=True)
class Assignment:
    """A claimed item with the dataset that it belongs to; work on a whole subject has none."""

    item: QueueItem
    dataset: Dataset | None

    @property
    def reasons(self) -> frozenset[Reason]:
        """Why it is here: a row that others merged into has several reasons."""
        merged = self.item.metadata.get("reasons", [])
        return frozenset(Reason(text) for text in (self.item.reason, *merged))

    @property
    def is_removal(self) -> bool:
        """Whether the file is to count for nothing."""
        return self.item.reason == Reason.REMOVE

    @property
    def is_about_a_file(self) -> bool:
        """Whether there is a file behind it."""
        return not self.item.source_uri.startswith("subject:")


def assign(items: Sequence[QueueItem], datasets: Mapping[str, Dataset]) -> list[Assignment]:
    """Each item with its dataset: the one it names, or the one whose patterns match its uri."""
    return [Assignment(item, _dataset_of(item, datasets)) for item in items]


def read_request(assignment: Assignment, *, stored: Fingerprint | None, now_us: int) -> ReadRequest | None:
    """What to read for an item, None where nothing is to be read."""
    dataset, reasons = assignment.dataset, assignment.reasons
    if (
        dataset is None
        or assignment.is_removal
        or reasons <= {Reason.PREVIEW, Reason.COMPACT, Reason.RECONCILE}
    ):
        return None
    if reasons & _READ_AGAIN:
        why = ReadReason.REINGEST
    elif Reason.QUIET in reasons or Reason.RELEASE in reasons:
        why = ReadReason.QUIET
    else:
        why = ReadReason.NOTIFICATION
    request = ReadRequest.for_dataset(
        dataset, path_of(assignment.item.source_uri), reason=why, now_us=now_us, stored=stored
    )
    # Whoever releases a file has seen that its new version says less.
    return replace(request, on_shrink=OnShrink.REPLACE) if Reason.RELEASE in reasons else request


def file_change(assignment: Assignment, outcome: ReadOutcome | None, lake: Lake) -> FileChange | None:
    """What an item does to the catalog; None where it does nothing."""
    uri = assignment.item.source_uri
    ignores_horizon = bool(assignment.reasons & {Reason.RELEASE, Reason.BACKFILL})
    if assignment.is_removal:
        return FileChange(source_uri=uri, generation=0, seam_position=None, is_removed=True)
    is_released = Reason.RELEASE in assignment.reasons
    if outcome is None or outcome.status is not ReadStatus.READ or outcome.fingerprint is None:
        if is_released:
            return FileChange(source_uri=uri, generation=0, seam_position=None, is_released=True)
        return None
    generation = outcome.fingerprint.generation
    is_new_generation = outcome.replacement is Replacement.NEW_GENERATION
    return FileChange(
        source_uri=uri,
        generation=generation,
        seam_position=None if is_new_generation else outcome.seam_position,
        fragments=tuple(
            FragmentEntry(
                segment_us=fragment.segment_start_us,
                source_uri=uri,
                generation=generation,
                path=lake.relative(fragment.file),
                row_group=fragment.row_group,
                readings=fragment.rows,
                first_position=fragment.first_position,
                last_position=fragment.last_position,
                first_us=fragment.first_us,
                last_us=fragment.last_us,
            )
            for fragment in outcome.fragments
        ),
        is_released=is_released,
        ignores_horizon=ignores_horizon,
    )


def path_of(source_uri: str) -> str:
    """The path behind a uri."""
    return unquote(source_uri.removeprefix("file://")) if source_uri.startswith("file://") else source_uri


def _dataset_of(item: QueueItem, datasets: Mapping[str, Dataset]) -> Dataset | None:
    if item.dataset is not None:
        return datasets.get(item.dataset)
    matched = match_file(item.source_uri, list(datasets.values()))
    return matched.dataset if matched else None
