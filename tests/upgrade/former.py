"""A database with the tables of before one migration, and no functions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from disarray.control.migrations import known_migrations
from disarray.control.routines import SQL_FOLDER
from tests.databases import Databases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.migrations import Migration


def migration_named(name: str) -> Migration:
    """The migration of this name."""
    return next(each for each in known_migrations() if each.name == name)


@contextmanager
def database_before(migration: Migration, server_dsn: str) -> Iterator[psycopg.Connection]:
    """A new database with everything up to this migration."""
    databases = Databases(server_dsn)
    name = databases.create()
    with psycopg.connect(databases.dsn(name)) as connection:
        connection.execute((SQL_FOLDER / "bootstrap.sql").read_bytes())
        for each in known_migrations():
            if each.version < migration.version:
                connection.execute(each.text.encode())
        yield connection
    databases.discard(name)
    databases.drop_discarded()
