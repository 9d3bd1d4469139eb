"""Bringing a database to the schema of this program, forward only."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from psycopg import errors

from disarray import __version__
from disarray.control.blocks import make_blocks
from disarray.control.readings import flatten_running_views
from disarray.control.routines import SQL_FOLDER, dependants_named, functions_hash, replace_functions
from disarray.control.translation import translated_errors
from disarray.errors import (
    FunctionsDifferError,
    MigrationChangedError,
    SchemaMissingError,
    SchemaTooNewError,
)

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from disarray.control.connections import Connection

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


@dataclass(frozen=True)
class Schema:
    """The schema that a database has: its migrations, oldest first, and whose functions it runs."""

    migrations: tuple[AppliedMigration, ...] = ()
    functions_hash: str | None = None
    program_version: str | None = None
    may_replace: bool = False

    @property
    def has_other_functions(self) -> bool:
        """Whether its functions are not those of this program, nor of a newer one that this one can work beside."""
        if self.functions_hash == functions_hash():
            return False
        known = {migration.version for migration in known_migrations()}
        is_newer = any(done.version not in known for done in self.migrations)
        return not is_newer and _release_number(self.program_version) <= _release_number(__version__)


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
        _begin(connection)
        connection.execute(_script(SQL_FOLDER / "bootstrap.sql"))
        applied = _applied(connection)
        _refuse_conflicts(applied, known)
        _refuse_downgrade(applied, known)
        _refuse_older_functions(connection)
        missing = [
            migration for migration in known if migration.version not in {done.version for done in applied}
        ]
        for migration in missing:
            with dependants_named():
                connection.execute(migration.text.encode())
            connection.execute(
                "insert into disarray.schema_migration (version, name, checksum, is_breaking) values (%s, %s, %s, %s)",
                (migration.version, migration.name, migration.checksum, migration.is_breaking),
            )
        replace_functions(connection)
        make_blocks(connection)
        flatten_running_views(connection)
    return missing


def check_schema(connection: Connection, migrations: tuple[Migration, ...] | None = None) -> None:
    """Refuse to work with a schema that is missing, older than this program, changed, or newer in a breaking way."""
    _refuse_unusable(read_schema(connection), migrations)


def prepare_schema(connection: Connection) -> None:
    """Refuse as `check_schema` does; functions of another program are replaced first where the role may do so."""
    schema = read_schema(connection)
    try:
        _refuse_unusable(schema)
    except FunctionsDifferError:
        if not schema.may_replace:
            raise
        with translated_errors(), connection.transaction():
            _begin(connection)
            connection.execute("set local role disarray_owner")
            # Another process of this program may have done it while we waited.
            if read_schema(connection).has_other_functions:
                replace_functions(connection)


def read_schema(connection: Connection) -> Schema:
    """What there is; every role may ask."""
    with translated_errors():
        found = connection.execute(
            """
            select
                to_regprocedure('disarray.list_migrations()') is not null,
                to_regprocedure('disarray.function_release()') is not null,
                coalesce(pg_catalog.pg_has_role(to_regrole('disarray_owner')::oid, 'member'), false)
            """
        ).fetchone()
        assert found is not None
        has_migrations, has_release, may_replace = found
        if not has_migrations:
            return Schema()
        if not has_release:
            return Schema(tuple(list_migrations(connection)), may_replace=may_replace)
        rows = connection.execute(
            """
            select
                applied.version,
                applied.name,
                applied.checksum,
                applied.is_breaking,
                release.functions_hash,
                release.program_version
            from disarray.list_migrations() as applied
            cross join disarray.function_release() as release
            """
        ).fetchall()
    return Schema(
        tuple(AppliedMigration(*row[:4]) for row in rows),
        functions_hash=rows[0][4],
        program_version=rows[0][5],
        may_replace=may_replace,
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


def _begin(connection: Connection) -> None:
    # The waits of a migration are its own business; the limits are for the workers.
    connection.execute("set local statement_timeout = 0; set local lock_timeout = '60s'")
    connection.execute("set local client_min_messages = warning")
    # Nothing that somebody put into the schema public takes part in this, whatever it is called.
    connection.execute("set local search_path = pg_catalog, pg_temp")
    if not _is_locked(connection):
        # Only before there is a schema. Any login can take an advisory lock, and would stop every upgrade with it.
        connection.execute("select pg_advisory_xact_lock(%s)", (ADVISORY_LOCK,))
        # Somebody may have made the schema meanwhile, and others lock its table.
        _is_locked(connection)


def _is_locked(connection: Connection) -> bool:
    """Lock the schema against other programs that migrate; False where there is none, or not for this role."""
    try:
        with connection.transaction():
            connection.execute("set local role disarray_owner")
            connection.execute("lock table disarray.schema_migration in exclusive mode")
            connection.execute("set local role none")
    except (
        errors.UndefinedTable,
        errors.InvalidSchemaName,
        errors.InvalidParameterValue,
        errors.InsufficientPrivilege,
    ):
        return False
    return True


def _release_number(version: str | None) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version or "")[:3])


def _refuse_unusable(schema: Schema, migrations: tuple[Migration, ...] | None = None) -> None:
    known = migrations if migrations is not None else known_migrations()
    if not schema.migrations:
        raise SchemaMissingError(
            "the database has no disarray schema. Nothing was changed. Run: disarray db migrate"
        )
    _refuse_conflicts(list(schema.migrations), known)
    missing = {migration.version for migration in known} - {done.version for done in schema.migrations}
    if missing:
        raise SchemaMissingError(
            f"the schema of the database lacks migration {min(missing)}. Nothing was changed. Run: disarray db migrate"
        )
    if schema.has_other_functions:
        raise FunctionsDifferError(
            f"the database runs the functions of another disarray ({schema.program_version or 'before 0.1.0'}) than "
            f"this one ({__version__}), and this role may not replace them. Nothing was changed. "
            "Run with a role that owns the schema: disarray db migrate"
        )


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


def _refuse_older_functions(connection: Connection) -> None:
    schema = read_schema(connection)
    if _release_number(schema.program_version) > _release_number(__version__):
        raise SchemaTooNewError(
            f"the database runs the functions of disarray {schema.program_version}, which is newer than this one "
            f"({__version__}). Nothing was changed. Run 'disarray db migrate' with that one; this program can go on "
            "working beside it."
        )


def _script(file: Traversable) -> bytes:
    return file.read_bytes()
