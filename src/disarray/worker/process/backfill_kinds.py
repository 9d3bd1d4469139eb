"""Kinds of backfills on a worker: those that need more than a database get the means of the worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.backfill.replay import ReplayMeans
from disarray.backfill.subject_kinds import subject_kinds

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from disarray.backfill.description import BackfillSpec
    from disarray.backfill.kind import BackfillKind
    from disarray.control.connections import Connection
    from disarray.worker.workplace import Workplace


@dataclass(frozen=True, slots=True)
class WorkerKinds:
    """Opens every kind of backfill, with what a worker has; once it ends, subjects at work are given back."""

    place: Workplace
    is_over: Callable[[], bool] = lambda: False

    def __call__(self, connection: Connection, spec: BackfillSpec, /) -> AbstractContextManager[BackfillKind]:
        """The kind of a job, at work on what its description names."""
        place = self.place
        means = ReplayMeans(place.runner, place.lake, place.datasets, is_over=self.is_over)
        return subject_kinds(means)(connection, spec)
