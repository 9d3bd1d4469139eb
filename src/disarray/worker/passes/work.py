"""One item on its way through a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.kernels.reading.outcome import ReadStatus
from disarray.worker.passes.work_order import RebuildSubject, RemoveFile, ResyncSubject

if TYPE_CHECKING:
    from disarray.control.queue import QueueItem
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.worker.passes.assignment import Assignment


@dataclass(frozen=True, slots=True)
class Work:
    """One item, and what reading its file gave; None where nothing was to be read."""

    assignment: Assignment
    outcome: ReadOutcome | None
    restores: bool = (
        False  # what the file said before it was blacklisted is kept, whatever became of the file
    )
    problem: str | None = None  # why what it needs beside a file cannot be had

    @property
    def item(self) -> QueueItem:
        """The claimed item."""
        return self.assignment.item

    @property
    def is_read(self) -> bool:
        """Whether there is something new to commit."""
        return self.outcome is not None and self.outcome.status is ReadStatus.READ

    @property
    def failure(self) -> str | None:
        """Why the item cannot be completed, None where it can."""
        if self.problem is not None:
            return self.problem
        if self.assignment.is_superseded or self.assignment.asks_for(RemoveFile):
            return None
        if self.item.source_uri is not None and self.assignment.dataset is None:
            return self.assignment.problem or (
                f"no dataset takes {self.item.source_uri}. Nothing was read, and what it said before stays. "
                "Describe it in disarray.toml; its next notification tries again."
            )
        if self.assignment.asks_for(RebuildSubject, ResyncSubject) and self.assignment.dataset is None:
            return (
                f"this worker knows no dataset '{self.item.dataset}', so {self.item.subject_key} stays as it is. Its "
                "old numbers are served. Describe it in disarray.toml, or let a worker do it that knows it."
            )
        if self.outcome is None or self.outcome.status in (
            ReadStatus.READ,
            ReadStatus.UNCHANGED,
            ReadStatus.PARKED,
        ):
            return None
        if self.restores and (self.outcome.status is ReadStatus.VANISHED or not self.may_succeed_later):
            # The next announcement of the file says again what is wrong with it.
            return None
        return self.outcome.message or "the file could not be read"

    @property
    def waits_for_the_lake(self) -> bool:
        """Whether there was no room for what its file says: no attempt at the file was made."""
        return self.outcome is not None and self.outcome.status is ReadStatus.UNWRITTEN

    @property
    def may_succeed_later(self) -> bool:
        """Whether a failure is of the moment: a file not visible yet, a share that is away."""
        if self.item.source_uri is None:
            return True
        return self.outcome is not None and (
            self.outcome.is_retryable or self.outcome.status is ReadStatus.VANISHED
        )
