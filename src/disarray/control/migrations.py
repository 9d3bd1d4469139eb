"""Bringing a database to the schema of this program, forward only."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from disarray.control.translation import translated_errors
from disarray.errors import MigrationChangedError, SchemaMissingError, SchemaTooNewError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from disarray.control.connections import Connection

SQL_FOLDER = files("disarray.control") / "sql"
ADVISORY_LOCK = 0x6469_7361_7272_6179
MINIMUM_SERVER = 150_000


@dataclass(frozen=True)
class Migration:
    """One file of ``sql/migrations``."""

    version: int
    name: str
    text: str = field(repr=False)
    is_breaking: bool

    @property
    def checksum(self) -> str:
        """Tells whether the file is the one that was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class AppliedMigration:
    """What a database remembers of a migration."""

    version: int
    name: str
    checksum: str
    is_breaking: bool


def read_migration(file: Traversable) -> Migration:
    """A migration file: its number and name from the file name, and whether older programs can live with it."""
    text = file.read_text(encoding="utf-8")
    number, _, name = file.name.removesuffix(".sql").partition("_")
    declared = re.search(r"^-- breaking: (yes|no)$", text, re.MULTILINE)
    if declared is None:
        raise ValueError(f"{file.name} must say '-- breaking: yes' or '-- breaking: no'")
    return Migration(int(number), name, text, is_breaking=declared[1] == "yes")


@cache
def known_migrations() -> tuple[Migration, ...]:
    """The migrations of this program, in order."""
    found = sorted((SQL_FOLDER / "migrations").iterdir(), key=lambda file: file.name)
    return tuple(read_migration(file) for file in found if file.name.endswith(".sql"))


def migrate(connection: Connection, migrations: tuple[Migration, ...] | None = None) -> list[Migration]:
    """Apply what is missing and replace every function, in one transaction; the migrations that were applied.

    Two programs that start together wait for each other; the second finds nothing to do.
    """
    known = migrations if migrations is not None else known_migrations()
    with translated_errors(), connection.transaction():
        _check_server(connection)
        # The waits of a migration are its own business; the limits are for the workers.
        connection.execute("set local statement_timeout = 0; set local lock_timeout = '60s'")
        connection.execute("set local client_min_messages = warning")
        connection.execute("select pg_advisory_xact_lock(%s)", (ADVISORY_LOCK,))
        connection.execute(_script(SQL_FOLDER / "bootstrap.sql"))
        applied = _applied(connection)
        _refuse_conflicts(applied, known)
        _refuse_downgrade(applied, known)
        missing = [
            migration for migration in known if migration.version not in {done.version for done in applied}
        ]
        for migration in missing:
            connection.execute(migration.text.encode())
            connection.execute(
                "insert into disarray.schema_migration (version, name, checksum, is_breaking) values (%s, %s, %s, %s)",
                (migration.version, migration.name, migration.checksum, migration.is_breaking),
            )
        _replace_functions(connection)
    return missing


def check_schema(connection: Connection, migrations: tuple[Migration, ...] | None = None) -> None:
    """Refuse to work with a schema that is missing, older than this program, changed, or newer in a breaking way."""
    known = migrations if migrations is not None else known_migrations()
    applied = list_migrations(connection)
    if not applied:
        raise SchemaMissingError(
            "the database has no disarray schema. Nothing was changed. Run: disarray db migrate"
        )
    _refuse_conflicts(applied, known)
    missing = {migration.version for migration in known} - {done.version for done in applied}
    if missing:
        raise SchemaMissingError(
            f"the schema of the database lacks migration {min(missing)}. Nothing was changed. Run: disarray db migrate"
        )


def list_migrations(connection: Connection) -> list[AppliedMigration]:
    """What was applied to a database, oldest first; nothing where there is no schema. Every role may ask."""
    with translated_errors():
        exists = connection.execute(
            "select to_regprocedure('disarray.list_migrations()') is not null"
        ).fetchone()
        if exists is None or not exists[0]:
            return []
        rows = connection.execute(
            "select version, name, checksum, is_breaking from disarray.list_migrations()"
        ).fetchall()
    return [AppliedMigration(*row) for row in rows]


def schema_version(connection: Connection) -> int | None:
    """The newest migration of the database, None where there is no schema."""
    return max((done.version for done in list_migrations(connection)), default=None)


def _check_server(connection: Connection) -> None:
    version = connection.info.server_version
    if version < MINIMUM_SERVER:
        raise SchemaMissingError(
            f"PostgreSQL {version // 10_000} is too old, 15 or later is needed. Nothing was changed."
        )


def _applied(connection: Connection) -> list[AppliedMigration]:
    rows = connection.execute(
        "select version, name, checksum, is_breaking from disarray.schema_migration order by version"
    ).fetchall()
    return [AppliedMigration(*row) for row in rows]


def _refuse_conflicts(applied: list[AppliedMigration], known: tuple[Migration, ...]) -> None:
    ours = {migration.version: migration for migration in known}
    for done in applied:
        migration = ours.get(done.version)
        if migration is None and done.is_breaking:
            raise SchemaTooNewError(
                f"the database has migration {done.version} ({done.name}), which this program does not know and "
                "cannot work with. Nothing was changed. Install the newer disarray."
            )
        if migration is not None and migration.checksum != done.checksum:
            raise MigrationChangedError(
                f"migration {done.version} ({done.name}) reads differently from when it was applied. Nothing was "
                "changed. Restore the file, and put the change into a new migration."
            )


def _refuse_downgrade(applied: list[AppliedMigration], known: tuple[Migration, ...]) -> None:
    newest_known = max(migration.version for migration in known)
    newer = [done for done in applied if done.version > newest_known]
    if newer:
        # Replacing the functions would put those of the older program over the newer schema.
        raise SchemaTooNewError(
            f"the database was migrated to {newer[-1].version} ({newer[-1].name}) by a newer program. Nothing was "
            "changed. Run 'disarray db migrate' with that one; this program can go on working beside it."
        )


def _replace_functions(connection: Connection) -> None:
    dropped = connection.execute(
        """
        select format('drop routine %s', routine.oid::regprocedure)
        from pg_proc as routine
        where routine.pronamespace in ('disarray'::regnamespace, 'telemetry'::regnamespace)
        """
    ).fetchall()
    for (statement,) in dropped:
        connection.execute(statement.encode())
    # Files are created by name, not by dependency; bodies are checked when they run, and every one is run by a test.
    connection.execute("set local check_function_bodies = off")
    for file in sorted(
        (SQL_FOLDER / "functions").iterdir(), key=lambda file: (file.name == "grant.sql", file.name)
    ):
        connection.execute(_script(file))


def _script(file: Traversable) -> bytes:
    return file.read_bytes()
