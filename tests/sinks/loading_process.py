"""A process that loads what is due into each destination of a folder, under the name of its former life."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from disarray.control import connections, instances
from disarray.engine.runner import InProcessRunner
from disarray.formats.loader import load_datasets
from disarray.sinks import destination_delta
from disarray.sinks.destination_delta_log import trim_log
from disarray.sinks.destination_file import load_destinations
from disarray.sinks.destination_loader import DestinationLoader, LoaderSettings
from disarray.store.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path

CUT_READINGS = "DISARRAY_TEST_CUT_READINGS"


def load_all(dsn: str, folder: Path) -> None:
    """One life."""
    file = folder / "disarray.toml"
    datasets = {each.name: each for each in load_datasets(file)}
    with connections.open_pool(dsn) as pool:
        with pool.connection() as connection:
            holder = instances.register_instance(connection, "Loader")
        for destination in load_destinations(file, datasets):
            loader = DestinationLoader(
                pool=pool,
                lake=Lake(folder / "lake"),
                destination=destination,
                holder=holder,
                settings=LoaderSettings(cut_readings=int(os.environ.get(CUT_READINGS, "1000000"))),
                runner=InProcessRunner(),
            )
            loader.register()
            for _ in loader.load_due():
                pass


def load_with_short_log(dsn: str, folder: Path) -> None:
    """One life that clears the log of a Delta table after each version of it."""
    patch = pytest.MonkeyPatch()
    patch.setattr(destination_delta, "TRIM_EVERY", 1)
    patch.setattr(destination_delta, "trim_log", partial(trim_log, keep=2))
    load_all(dsn, folder)
