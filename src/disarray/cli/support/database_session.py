"""A look at the control database: an embedded server that is stopped is started, nothing is created or migrated."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.config import Config
    from disarray.control.connections import Connection

APPLICATION_NAME = "disarray cli"


def tell_start() -> None:
    """Say that an embedded server was started for this command."""
    typer.echo("The embedded database was stopped and runs again; disarray db stop ends it.", err=True)


@contextmanager
def decision(connection: Connection, *, dry_run: bool) -> Iterator[None]:
    """All that is decided inside happens together; in a dry run it is done by the very same code, and undone."""
    from disarray.control.translation import translated_errors

    with translated_errors(), connection.transaction(force_rollback=dry_run):
        yield


@contextmanager
def control_session(config: Config) -> Iterator[Connection]:
    """A connection to a database whose schema this program can work with."""
    from disarray.queries.project import connect

    with connect(config, application_name=APPLICATION_NAME, on_start=tell_start) as connection:
        yield connection
