"""What becomes of each item of a pass; items are given back here and nowhere else."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from disarray.control import claim_ends, moving_files
from disarray.control.claim_ends import Failure
from disarray.errors import LeaseLostError
from disarray.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disarray.control.moving_files import HandOver
    from disarray.control.queue import QueueId, QueueItem
    from disarray.worker.workplace import Workplace

log = logging.getLogger(__name__)

# How long what could not be written waits: soon enough after somebody made room, and not so often that files are read
# for nothing all day.
LAKE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Completed:
    """Its commit ended it."""

    item: QueueItem


@dataclass(frozen=True, slots=True)
class Failed:
    """It could not be done: it waits for another try, or becomes a dead letter, at once where that is permanent."""

    item: QueueItem
    message: str
    is_permanent: bool


@dataclass(frozen=True, slots=True)
class Waits:
    """Something else has to be mended first: it waits so long, uncounted, and is never a dead letter for that."""

    item: QueueItem
    message: str
    seconds: int


@dataclass(frozen=True, slots=True)
class HandedOver:
    """Its file is about another subject, which it waits for from now on."""

    target: HandOver


@dataclass(frozen=True, slots=True)
class Lost:
    """Its subject is no longer held: another worker has the item, or will."""

    item: QueueItem


ItemOutcome = Completed | Failed | Waits | HandedOver | Lost


def failure_messages(outcomes: Iterable[ItemOutcome]) -> dict[QueueId, str]:
    """What to tell about the items that were not done, by item."""
    return {each.item.queue_id: each.message for each in outcomes if isinstance(each, Failed | Waits)}


def give_back(workplace: Workplace, outcomes: Iterable[ItemOutcome]) -> None:
    """End what was not ended by a commit, each item as its outcome says."""
    targets: list[HandOver] = []
    failures: list[tuple[str, Failure]] = []  # with their subjects
    waits: dict[int, list[tuple[str, Failure]]] = defaultdict(list)  # by seconds
    for each in outcomes:
        match each:
            case Completed() | Lost():
                continue
            case HandedOver(target):
                targets.append(target)
            case Failed(item, message, is_permanent):
                failure = Failure(item.queue_id, message, is_permanent=is_permanent)
                failures.append((item.subject_key, failure))
            case Waits(item, message, seconds):
                failure = Failure(item.queue_id, message, is_permanent=False)
                waits[seconds].append((item.subject_key, failure))
            case _:
                assert_never(each)
    _hand_over(workplace, targets)
    _fail(workplace, failures, wait_seconds=None)
    for seconds in sorted(waits):
        _fail(workplace, waits[seconds], wait_seconds=seconds)


def _hand_over(workplace: Workplace, targets: Sequence[HandOver]) -> None:
    if not targets:
        return
    try:
        with workplace.pool.connection() as connection:
            moving_files.hand_over_items(connection, targets, workplace.holder)
    except LeaseLostError as error:
        log.warning("%s", error)


def _fail(workplace: Workplace, failures: Sequence[tuple[str, Failure]], *, wait_seconds: int | None) -> None:
    if not failures:
        return
    by_subject: dict[str, list[Failure]] = defaultdict(list)
    for subject_key, failure in failures:
        by_subject[subject_key].append(failure)
    together = [failure for group in by_subject.values() for failure in group]
    if not _are_failed(workplace, together, wait_seconds) and len(by_subject) > 1:
        # One subject that was lost meanwhile took the others with it: now each for itself.
        for group in by_subject.values():
            _are_failed(workplace, group, wait_seconds)


def _are_failed(workplace: Workplace, failures: Sequence[Failure], wait_seconds: int | None) -> bool:
    try:
        with workplace.pool.connection() as connection:
            failpoint("fail.before", connection)
            claim_ends.fail_items(
                connection,
                failures,
                workplace.holder,
                retry_delay_seconds=wait_seconds,
                is_counted=wait_seconds is None,
            )
            failpoint("fail.after", connection)
    except LeaseLostError as error:
        log.warning("%s", error)
        return False
    return True
