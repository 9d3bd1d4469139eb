"""Kinds of backfills on a worker: those that need more than a database get the means of the worker."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from disarray.backfill.description import RepublishSpec, ResyncSpec
from disarray.backfill.replay import ReplayMeans
from disarray.backfill.republish import RepublishKind
from disarray.backfill.resync import ResyncMeans, open_resync
from disarray.backfill.subject_kinds import subject_kinds
from disarray.control.connections import SessionLimits, open_pool
from disarray.errors import ConfigError
from disarray.model.description.spec_table import near_miss
from disarray.queries.project import configured_sources
from disarray.sinks.destination_file import load_destinations
from disarray.sinks.destination_loader import DestinationLoader
from disarray.worker.process.local import database_of, open_house
from disarray.worker.process.settings import loader_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from disarray.backfill.description import BackfillSpec
    from disarray.backfill.kind import BackfillKind
    from disarray.config import Config
    from disarray.control.connections import Connection
    from disarray.worker.workplace import Workplace

# What a load reads, what it loads into, and its lease.
_CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class WorkerKinds:
    """Opens every kind of backfill, with what a worker has; once it ends, subjects at work are given back."""

    place: Workplace
    dsn: str
    is_over: Callable[[], bool] = lambda: False

    def __call__(
        self, connection: Connection, spec: BackfillSpec, job_id: int | None = None, /
    ) -> AbstractContextManager[BackfillKind]:
        """The kind of a job, at work on what its description names."""
        if isinstance(spec, RepublishSpec):
            return self._open_republish(spec)
        place = self.place
        if isinstance(spec, ResyncSpec):
            return open_resync(
                spec,
                job_id,
                ResyncMeans(place.landing, place.datasets, place.sources, is_over=self.is_over),
            )
        means = ReplayMeans(
            place.runner.beside("backfills"), place.lake, place.datasets, is_over=self.is_over
        )
        return subject_kinds(means)(connection, spec)

    @contextmanager
    def _open_republish(self, spec: RepublishSpec) -> Iterator[BackfillKind]:
        place = self.place
        known = {each.name: each for each in place.destinations}
        if spec.destination not in known:
            raise ConfigError(
                f"disarray.toml has no destination '{spec.destination}'; {near_miss(spec.destination, [*known])}. "
                "Nothing was changed"
            )
        # Of its own: those of the worker are counted out among its threads.
        with open_pool(
            self.dsn,
            limits=SessionLimits.for_lease(place.loader_settings.lease_seconds),
            application_name=f"disarray backfill {spec.name}",
            max_size=_CONNECTIONS,
        ) as pool:
            yield RepublishKind(
                spec,
                DestinationLoader(
                    pool=pool,
                    lake=place.lake,
                    destination=known[spec.destination],
                    holder=place.holder,
                    settings=place.loader_settings,
                    runner=place.runner,
                ),
                is_over=self.is_over,
            )


@contextmanager
def project_kinds(config: Config, is_over: Callable[[], bool] = lambda: False) -> Iterator[WorkerKinds]:
    """The same for a command that republishes or resyncs: with the project, and without an engine."""
    with open_house(config) as house:
        place = replace(
            house,
            destinations=load_destinations(config.dataset_file, house.datasets),
            loader_settings=loader_settings(config),
            sources=configured_sources(config, house.datasets),
        )
        yield WorkerKinds(place, database_of(config), is_over)
