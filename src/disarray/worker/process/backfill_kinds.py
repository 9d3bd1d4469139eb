"""Kinds of backfills on a worker: those that need more than a database get the means of the worker."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from disarray.backfill.description import ReplaySpec, UpdateSpec
from disarray.backfill.job_session import open_in_database
from disarray.backfill.replay import ReplayMeans, open_replay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.backfill.description import BackfillSpec
    from disarray.backfill.kind import BackfillKind
    from disarray.control.connections import Connection
    from disarray.worker.workplace import Workplace


@dataclass(frozen=True, slots=True)
class WorkerKinds:
    """Opens every kind of backfill, with what a worker has."""

    place: Workplace

    @contextmanager
    def __call__(self, connection: Connection, spec: BackfillSpec, /) -> Iterator[BackfillKind]:
        """The kind of a job, at work on what its description names."""
        match spec:
            case UpdateSpec():
                with open_in_database(connection, spec) as kind:
                    yield kind
            case ReplaySpec():
                means = ReplayMeans(self.place.runner, self.place.lake, self.place.datasets)
                yield open_replay(spec, means)
            case _:
                assert_never(spec)
