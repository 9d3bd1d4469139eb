"""Subjects whose source was resynced: in one commit the staged generation takes the place of the one before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from disarray.control import resyncs
from disarray.kernels.reading.outcome import ReadReason, ReadRequest, ReadStatus
from disarray.model.catalog_changes import FileChange
from disarray.model.description.dataset import SubjectKind
from disarray.model.fragments import FragmentState
from disarray.model.uris import file_path
from disarray.worker.passes.assignment import read_change
from disarray.worker.passes.work_order import ResyncSubject

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.control.resyncs import GenerationSwap
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.description.dataset import Dataset
    from disarray.store.lake import Lake
    from disarray.worker.passes.assignment import Assignment
    from disarray.worker.passes.rebuilding import SubjectOfDataset

_SHOWN_FILES = 3


@dataclass(frozen=True, slots=True)
class StagedSwap:
    """A swap, and what its staged files say."""

    swap: GenerationSwap
    outcomes: Mapping[str, ReadOutcome]

    @property
    def problem(self) -> str | None:
        """Why it cannot be done, None where it can: a file that is lost would be rows that are lost."""
        unread = [
            f"{uri} ({outcome.message or outcome.status.value})"
            for uri, outcome in self.outcomes.items()
            if outcome.status is not ReadStatus.READ or outcome.fingerprint is None
        ]
        if not unread:
            return None
        more = f" and {len(unread) - _SHOWN_FILES} more" if len(unread) > _SHOWN_FILES else ""
        return (
            f"what the resync of backfill job {self.swap.job_id} staged of {self.swap.subject_key} cannot be read: "
            f"{'; '.join(unread[:_SHOWN_FILES])}{more}. Its old numbers are served. When that job has ended: "
            "disarray source resync NAME"
        )

    def changes(self, lake: Lake, sealed: Collection[int]) -> list[FileChange]:
        """All that the former files said goes, and what the staged ones say comes.

        It is held against no horizon: somebody asked for all of it. Segments that are sealed stay as they were counted,
        and what is said about them counted in them.
        """
        read = [read_change(uri, outcome, lake) for uri, outcome in self.outcomes.items()]
        arriving = [
            replace(
                change,
                ignores_horizon=True,
                fragments=tuple(
                    replace(fragment, state=FragmentState.SEALED)
                    if fragment.segment_us in sealed
                    else fragment
                    for fragment in change.fragments
                ),
            )
            for change in read
            if change is not None
        ]
        leaving = [
            FileChange(source_uri=uri, generation=0, seam_position=0, is_leaving=True)
            for uri in self.swap.former
        ]
        return arriving + leaving

    def segments(self) -> list[int]:
        """The segments that the staged files say something about."""
        return sorted(
            {fragment.segment_us for outcome in self.outcomes.values() for fragment in outcome.fragments}
        )


def mark_superseded(connection: Connection, assignments: Sequence[Assignment]) -> list[Assignment]:
    """The same assignments. Those whose file a resync has replaced are marked: nothing is done to such a file."""
    delivered = [
        each.source_uri
        for each in assignments
        if each.source_uri is not None
        and each.dataset is not None
        and each.dataset.subject.kind is SubjectKind.DELIVERY
    ]
    if not delivered:
        return list(assignments)
    gone = resyncs.find_superseded_deliveries(connection, delivered)
    return [replace(each, is_superseded=True) if each.source_uri in gone else each for each in assignments]


def load_swaps(
    connection: Connection, assignments: Sequence[Assignment]
) -> dict[SubjectOfDataset, GenerationSwap]:
    """What the orders of a batch ask to be swapped; nothing for an order whose resync was given up."""
    found = {}
    for each in assignments:
        for order in each.orders:
            if isinstance(order, ResyncSubject) and each.dataset is not None:
                swap = resyncs.load_swap(connection, order.job_id, order.subject_key)
                if swap is not None and swap.dataset == order.dataset:
                    found[swap.key] = swap
    return found


def staged_requests(
    swap: GenerationSwap, dataset: Dataset, *, now_us: int
) -> dict[tuple[str, str, str], ReadRequest]:
    """What to read for a swap, by dataset, subject and file."""
    return {
        (*swap.key, uri): ReadRequest.for_dataset(
            dataset, file_path(uri), reason=ReadReason.REINGEST, now_us=now_us, stored=None
        )
        for uri in swap.staged
    }
