"""What commands that read numbers back work with: the running database, the lake and the datasets."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import control_session
from disarray.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import typer

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from disarray.store.lake import Lake


@dataclass(frozen=True)
class Project:
    """A project folder at work."""

    connection: Connection
    lake: Lake
    datasets: Mapping[str, Dataset]


@contextmanager
def open_project(context: typer.Context) -> Iterator[Project]:
    """The project of the current folder; a stopped database is started, nothing created or migrated."""
    try:
        from disarray.store.lake import Lake
        from disarray.worker.process.local import configured_datasets
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"this reads numbers as a worker does and needs {error.name}; "
            "install it with `pip install 'disarray-pipeline[worker]'`"
        ) from error
    config = configuration(context)
    datasets = configured_datasets(config)
    with control_session(config) as connection:
        yield Project(connection, Lake(config.lake_root), datasets)
