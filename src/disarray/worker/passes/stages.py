"""The first stages of a pass: assigned items are read, and what was read is judged. Nothing here changes a number."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from disarray.control import catalog
from disarray.failpoints import failpoint
from disarray.worker.passes.item_outcomes import (
    LAKE_SECONDS,
    Failed,
    HandedOver,
    Waits,
)
from disarray.worker.passes.moves import judge_subjects
from disarray.worker.passes.reading import batch_requests, find_blocked, read_batch
from disarray.worker.passes.rebuilding import (
    BLOCKED_SECONDS,
    blocked_by_failures,
    blocked_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from disarray.control.resyncs import GenerationSwap
    from disarray.errors import RebuildBlockedError
    from disarray.worker.passes.assignment import Assignment
    from disarray.worker.passes.item_outcomes import ItemOutcome
    from disarray.worker.passes.moves import Moves
    from disarray.worker.passes.reading import BatchRead
    from disarray.worker.passes.rebuilding import Rebuild, SubjectOfDataset
    from disarray.worker.passes.work import Work
    from disarray.worker.workplace import Workplace

    Blocked = Mapping[SubjectOfDataset, RebuildBlockedError]


@dataclass(frozen=True, slots=True)
class Pass:
    """What all stages of a pass share. `newest_us` is what horizons are counted from, where that is not now."""

    workplace: Workplace
    run_id: UUID
    rebuilds: Mapping[SubjectOfDataset, Rebuild]
    moves: Moves
    on_step: Callable[[], None]
    newest_us: Mapping[SubjectOfDataset, int | None] = field(default_factory=dict)
    swaps: Mapping[SubjectOfDataset, GenerationSwap] = field(default_factory=dict)

    def after(self, part: Sequence[Work]) -> Pass:
        """The pass for what is committed after a part of it: a subject has one run for each commit."""
        # What has to leave a subject left with the first part of it: a later one may bring it back.
        gone = {each.assignment.dataset_subject for each in part}
        leaving = {where: files for where, files in self.moves.leaving.items() if where not in gone}
        decided = {where: files for where, files in self.moves.decided.items() if where not in gone}
        return replace(self, run_id=uuid.uuid4(), moves=replace(self.moves, leaving=leaving, decided=decided))


@dataclass(frozen=True, slots=True)
class Judged:
    """What was read: work that is about its subject, what of it can be planned, and what cannot be done."""

    read: BatchRead
    own: list[Work]
    ready: list[Work]
    foreign: list[HandedOver]
    blocked: Blocked


def read_stage(this: Pass, assignments: Sequence[Assignment]) -> tuple[BatchRead, Blocked]:
    """Job 1; also the rebuilds of which a file is gone, for which nothing was read."""
    workplace = this.workplace
    with workplace.pool.connection() as connection:
        requests = batch_requests(
            connection,
            assignments,
            this.rebuilds,
            this.moves.homes,
            swaps=this.swaps,
            datasets=workplace.datasets,
        )
    blocked = find_blocked(workplace.runner, requests)
    failpoint("read.before")
    read = read_batch(
        workplace.runner,
        assignments,
        requests.without(blocked, assignments),
        lake=workplace.lake,
        run_id=this.run_id,
        swaps=this.swaps,
    )
    failpoint("read.after")
    this.on_step()
    return read, blocked


def judge_stage(this: Pass, read: BatchRead, blocked: Blocked) -> Judged:
    """Whom the files are about, and which of them can be planned."""
    own, foreign = judge_subjects(read.work, this.rebuilds)
    blocked = {**blocked, **blocked_by_failures(own, this.rebuilds)}
    ready = [each for each in own if each.failure is None and each.assignment.dataset_subject not in blocked]
    return Judged(read, own, ready, [HandedOver(target) for target in foreign], blocked)


def returned_items(
    own: Sequence[Work], blocked: Blocked, rebuilds: Mapping[SubjectOfDataset, Rebuild]
) -> list[ItemOutcome]:
    """Items that never came to a commit: their rebuild is blocked, or their file could not be read."""
    found: list[ItemOutcome] = []
    for each in own:
        where = each.assignment.dataset_subject
        # Also where its own file could not be read: that may be mended by then as well.
        if where is not None and where in blocked:
            found.append(Waits(each.item, blocked_message(rebuilds[where], blocked[where]), BLOCKED_SECONDS))
        elif each.failure is not None and each.waits_for_the_lake:
            found.append(Waits(each.item, each.failure, LAKE_SECONDS))
        elif each.failure is not None:
            found.append(Failed(each.item, each.failure, is_permanent=not each.may_succeed_later))
    return found


def newest_readings(workplace: Workplace, work: Sequence[Work]) -> dict[SubjectOfDataset, int | None]:
    """The newest reading of each subject and dataset, as it is before the pass."""
    keys = {each.assignment.dataset_subject for each in work}
    with workplace.pool.connection() as connection:
        return {
            where: catalog.high_event_us(connection, *where)
            for where in sorted(where for where in keys if where is not None)
        }
