"""A project opened for reading: its database, its lake and its datasets. Nothing is created or migrated."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control import connections, migrations
from disarray.errors import ConfigError, DatabaseUnreachableError, EmbeddedServerError
from disarray.formats.loader import load_datasets, load_sources
from disarray.store.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from disarray.config import Config
    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource


@dataclass(frozen=True)
class Project:
    """What answers are made from."""

    connection: Connection
    lake: Lake
    datasets: Mapping[str, Dataset]


def configured_datasets(config: Config) -> dict[str, Dataset]:
    """The datasets of the project, by name; a project without any has no numbers."""
    if not config.dataset_file.exists():
        raise ConfigError(
            f"there is no {config.dataset_file}, so no file belongs to a dataset. Nothing was read. "
            "Run 'disarray formats try FILE': it proposes one"
        )
    datasets = {dataset.name: dataset for dataset in load_datasets(config.dataset_file)}
    if not datasets:
        raise ConfigError(
            f"{config.dataset_file} describes no [[dataset]], so no file belongs to one. Nothing was read. "
            "Run 'disarray formats try FILE': it proposes one"
        )
    return datasets


def configured_sources(config: Config, datasets: Mapping[str, Dataset]) -> tuple[TableSource, ...]:
    """The table sources of the project, of which there may be none."""
    return load_sources(config.dataset_file, datasets)


def running_dsn(config: Config) -> str:
    """The DSN of the configured database, or of the embedded server if it is running."""
    if config.dsn is not None:
        return config.dsn
    from disarray import embedded

    status = embedded.status(config.state_dir)
    if status.server is not None:
        return status.server.dsn
    if status.condition is embedded.Condition.ABSENT:
        raise DatabaseUnreachableError(
            f"there is no database in {config.state_dir} yet. Nothing was changed. Run: disarray db migrate; or "
            "disarray up --once, which also takes in the files that are there"
        )
    raise DatabaseUnreachableError(
        f"the embedded server of {config.state_dir} is {status.condition.value}. Its data is safe. "
        "Run: disarray db start"
    )


def answering_dsn(config: Config, *, on_start: Callable[[], None]) -> str:
    """The same, after starting an embedded server that is there and stopped; it goes on running.

    `on_start` is called once it was started, so that somebody can be told.
    """
    if config.dsn is not None:
        return config.dsn
    from disarray import embedded

    status = embedded.status(config.state_dir)
    if status.server is not None:
        return status.server.dsn
    if status.condition is embedded.Condition.ABSENT:
        return running_dsn(config)
    try:
        server = embedded.start(config.state_dir)
    except EmbeddedServerError as error:
        raise DatabaseUnreachableError(
            f"the embedded server of {config.state_dir} is {status.condition.value} and could not be started: {error} "
            "Its data is as it was. Look again with: disarray db start"
        ) from error
    on_start()
    return server.dsn


def connect(config: Config, *, application_name: str, on_start: Callable[[], None]) -> Connection:
    """A connection to a database whose schema this program can work with."""
    connection = connections.connect(
        answering_dsn(config, on_start=on_start), application_name=application_name
    )
    try:
        migrations.prepare_schema(connection)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def open_project(config: Config, *, application_name: str, on_start: Callable[[], None]) -> Iterator[Project]:
    """The project of a folder; a stopped embedded database is started and goes on running."""
    datasets = configured_datasets(config)
    with connect(config, application_name=application_name, on_start=on_start) as connection:
        yield Project(connection, Lake(config.lake_root), datasets)
