"""The project that a command works on: its configuration, its database, its lake and its datasets."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from disarray.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from disarray.config import Config
    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from disarray.queries.project import Project as Project

APPLICATION_NAME = "disarray cli"


@dataclass(frozen=True)
class Flags:
    """The global flags as given; read later, so that help works beside a broken configuration file."""

    given: Mapping[str, str | None]


def configuration(
    context: typer.Context, given: Mapping[str, object] | None = None, *, file: Path | None = None
) -> Config:
    """The configuration of this call, in the current folder or that of `file`; `given` are the command's own flags."""
    from disarray.config import load

    flags = context.find_object(Flags)
    own = {flag: None if value is None else str(value) for flag, value in (given or {}).items()}
    folder = Path.cwd() if file is None else file.parent
    return load(folder, flags={**(flags.given if flags else {}), **own}, file=file)


@contextmanager
def extra_installed(extra: str, *, purpose: str) -> Iterator[None]:
    """For imports that need an extra: where it is not installed, the error says what to install for which purpose."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{purpose} needs {error.name}; install it with `pip install 'disarray-pipeline[{extra}]'`"
        ) from error


def database_dsn(config: Config) -> str:
    """The DSN to connect with: the configured one, or that of the embedded server, started if need be."""
    if config.dsn is not None:
        return config.dsn
    from disarray import embedded

    return embedded.start(config.state_dir).dsn


@contextmanager
def control_session(context: typer.Context) -> Iterator[Connection]:
    """A connection to the control database; a stopped embedded server is started, nothing is created or migrated."""
    from disarray.queries.project import connect

    config = configuration(context)
    with connect(config, application_name=APPLICATION_NAME, on_start=_announce_start) as connection:
        yield connection


@contextmanager
def decision(context: typer.Context, *, dry_run: bool) -> Iterator[Connection]:
    """A connection in one transaction; a dry run does everything with the same code and rolls it back."""
    from disarray.control.translation import translated_errors

    with (
        control_session(context) as connection,
        translated_errors(),
        connection.transaction(force_rollback=dry_run),
    ):
        yield connection


@contextmanager
def open_project(context: typer.Context) -> Iterator[Project]:
    """The database, lake and datasets of the project; a stopped embedded server is started, nothing is created."""
    from disarray.queries import project

    config = configuration(context)
    with (
        extra_installed("read", purpose="reading back what is stored"),
        project.open_project(config, application_name=APPLICATION_NAME, on_start=_announce_start) as opened,
    ):
        yield opened


def chosen_dataset(datasets: Mapping[str, Dataset], name: str) -> Dataset:
    """The dataset of disarray.toml that a flag names."""
    from disarray.model.description.spec_table import near_miss

    if name not in datasets:
        raise UnknownNameError(
            f"disarray.toml describes no dataset '{name}'; {near_miss(name, list(datasets))}. Nothing was changed"
        )
    return datasets[name]


def known_uri(connection: Connection, file: str) -> str:
    """The uri under which a file is known; a path or a uri may be given."""
    from disarray.queries.files import find_file

    uri: str = find_file(connection, file)["source_uri"]
    return uri


def _announce_start() -> None:
    typer.echo("The embedded database was stopped and runs again; disarray db stop ends it.", err=True)
