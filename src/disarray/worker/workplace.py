"""What a worker works with: the one value that its passes, its upkeep and its process share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.control.commits import MAX_SHIFT_ROWS
from disarray.sinks.destination_loader import DestinationLoader, LoaderSettings
from disarray.sinks.hook_settings import HookSettings
from disarray.sources.inbox import Inbox, InboxSettings
from disarray.sources.initial_load import CHUNKS_OF_A_TASK, InitialLoader
from disarray.sources.table_puller import TablePuller
from disarray.worker.housekeeping_settings import DEFAULTS, HousekeepingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.control.connections import Pool
    from disarray.control.queue import Holder
    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.destination import Destination
    from disarray.model.description.table_source import TableSource
    from disarray.sources.landing import Landing
    from disarray.store.lake import Lake


@dataclass(frozen=True, slots=True)
class Workplace:
    """The means of one worker: a database, somewhere to run kernels, somewhere to keep fragments."""

    pool: Pool
    runner: Runner
    lake: Lake
    datasets: Mapping[str, Dataset]
    holder: Holder
    subject_patterns: tuple[str, ...] = ("*",)
    former_patterns: tuple[str, ...] = ()  # of the former life under this name
    max_shift_rows: int = MAX_SHIFT_ROWS  # a larger shift of bases becomes an item of its own
    landing: Landing | None = None  # where sources deliver; None: there are none
    inbox_settings: InboxSettings = field(default_factory=InboxSettings)
    hook_settings: HookSettings = field(default_factory=HookSettings)
    housekeeping: HousekeepingSettings = DEFAULTS
    destinations: tuple[Destination, ...] = ()
    loader_settings: LoaderSettings = field(default_factory=LoaderSettings)
    sources: tuple[TableSource, ...] = ()

    @property
    def inbox(self) -> Inbox | None:
        """Where events of its datasets wait; None where none of them takes any."""
        if self.landing is None:
            return None
        inbox = Inbox(
            pool=self.pool,
            landing=self.landing,
            datasets=tuple(self.datasets.values()),
            holder=self.holder,
            settings=self.inbox_settings,
        )
        return inbox if inbox.served else None

    def loaders(self) -> list[DestinationLoader]:
        """A loader for each destination."""
        return [
            DestinationLoader(
                pool=self.pool,
                lake=self.lake,
                destination=each,
                holder=self.holder,
                settings=self.loader_settings,
                runner=self.runner,
            )
            for each in self.destinations
        ]

    @property
    def puller(self) -> TablePuller | None:
        """What pulls its table sources; None where there are none."""
        if self.landing is None or not self.sources:
            return None
        return TablePuller(
            pool=self.pool,
            landing=self.landing,
            datasets=self.datasets,
            holder=self.holder,
            sources=self.sources,
            lease_seconds=self.inbox_settings.lease_seconds,
        )

    def initial_loader(self, *, spares_a_core: bool) -> InitialLoader | None:
        """What carries out the initial loads of its table sources; None where there are none.

        With `spares_a_core`, what comes in meanwhile finds one free.
        """
        if self.landing is None or not self.sources:
            return None
        cores = self.runner.cores
        return InitialLoader(
            pool=self.pool,
            landing=self.landing,
            datasets=self.datasets,
            holder=self.holder,
            sources=self.sources,
            runner=self.runner.beside("loads"),
            cores=max(1, cores - 1) if spares_a_core else cores,
            chunks_of_a_task=1 if spares_a_core else CHUNKS_OF_A_TASK,
            lease_seconds=self.inbox_settings.lease_seconds,
        )
