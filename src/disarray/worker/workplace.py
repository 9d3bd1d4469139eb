"""What a worker works with: the one value that its passes, its upkeep and its process share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.control.commits import MAX_SHIFT_ROWS
from disarray.worker.housekeeping_settings import HousekeepingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.control.connections import Pool
    from disarray.control.queue import Holder
    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset
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
    housekeeping: HousekeepingSettings = field(default_factory=HousekeepingSettings)
