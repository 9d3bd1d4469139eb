"""What commands that read numbers back work with: the running database, the lake and the datasets."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import APPLICATION_NAME, tell_start
from disarray.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import typer

    from disarray.queries.project import Project as Project


@contextmanager
def open_project(context: typer.Context) -> Iterator[Project]:
    """The project of the current folder; a stopped database is started, nothing created or migrated."""
    from disarray.queries import project

    config = configuration(context)
    try:
        with project.open_project(config, application_name=APPLICATION_NAME, on_start=tell_start) as opened:
            yield opened
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"this reads back what is stored and needs {error.name}; "
            "install it with `pip install 'disarray-pipeline[read]'`"
        ) from error
