"""A look at the control database: an embedded server that is stopped is started, nothing is created or migrated."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from disarray.errors import DatabaseUnreachableError, EmbeddedServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.config import Config
    from disarray.control.connections import Connection


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


def answering_dsn(config: Config) -> str:
    """The same, after starting an embedded server that is there and stopped; it goes on running."""
    if config.dsn is not None:
        return config.dsn
    from disarray import embedded

    status = embedded.status(config.state_dir)
    if status.server is not None or status.condition is embedded.Condition.ABSENT:
        return running_dsn(config)
    try:
        server = embedded.start(config.state_dir)
    except EmbeddedServerError as error:
        raise DatabaseUnreachableError(
            f"the embedded server of {config.state_dir} is {status.condition.value} and could not be started: {error} "
            "Its data is as it was. Look again with: disarray db start"
        ) from error
    typer.echo("The embedded database was stopped and runs again; disarray db stop ends it.", err=True)
    return server.dsn


@contextmanager
def decision(connection: Connection, *, dry_run: bool) -> Iterator[None]:
    """All that is decided inside happens together; in a dry run it is done by the very same code, and undone."""
    from disarray.control.translation import translated_errors

    with translated_errors(), connection.transaction(force_rollback=dry_run):
        yield


@contextmanager
def control_session(config: Config) -> Iterator[Connection]:
    """A connection to a database whose schema this program can work with."""
    from disarray.control import connections, migrations

    with connections.connect(answering_dsn(config), application_name="disarray cli") as connection:
        migrations.prepare_schema(connection)
        yield connection
