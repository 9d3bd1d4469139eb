"""A session on the database of a table source: reads only, bounded in time, never shows its url."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import quote

from disarray.config import redact
from disarray.control.connections import refuse_unreadable
from disarray.errors import (
    ConfigError,
    SourceAccessError,
    SourceError,
    SourceLayoutError,
    SourceTimeoutError,
    SourceUnavailableError,
)
from disarray.model.description.secret import SecretSource
from disarray.model.description.table_source import UrlOrigin
from disarray.secret import read_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from disarray.model.description.table_source import SourceUrl

# Of libpq: seconds, and for the last milliseconds.
_LIMITS = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 40_000,
}


class Server(StrEnum):
    """What kind of database it is."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


@dataclass(frozen=True, slots=True)
class TableSession:
    """An open connection, outside of a transaction unless `snapshot` is entered."""

    source_name: str
    server: Server
    connection: Any

    def rows(self, statement: str, *, most_rows: int = 65_536) -> pa.Table:
        """What a statement answers, whole: it has to be bounded."""
        with source_errors(self.source_name), self.connection.cursor() as cursor:
            if self.server is Server.SQLITE:
                # Types are told from the first batch: a page is one.
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(most_rows)})
            cursor.execute(statement)
            table: pa.Table = cursor.fetch_arrow_table()
            return table

    def explain(self, statement: str, *, costs: str = "off") -> list[str]:
        """How PostgreSQL would run a statement; with costs `on`, also what it expects of it."""
        with source_errors(self.source_name), self.connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(f"explain (costs {costs}) {statement}")
            return [str(line) for line in cursor.fetch_arrow_table().column(0).to_pylist()]

    def run(self, statement: str) -> None:
        """A statement without an answer."""
        with source_errors(self.source_name), self.connection.cursor() as cursor:
            cursor.execute(statement)

    def schema_of(self, query: str) -> pa.Schema:
        """Names and types of what a query would answer; of PostgreSQL, with the name of each type."""
        with source_errors(self.source_name), self.connection.cursor() as cursor:
            if self.server is Server.POSTGRESQL:
                schema: pa.Schema = cursor.adbc_execute_schema(query)
                return schema
            cursor.execute(f"select * from ({query}) limit 0")  # noqa: S608 - the user's own query
            return cursor.fetch_arrow_table().schema

    @contextmanager
    def snapshot(self, lock: str | None = None) -> Iterator[None]:
        """One view of the data for all that is read inside.

        A table is locked before the view is taken: what rewrites a table in between would make it look empty.
        """
        match self.server:
            case Server.POSTGRESQL:
                self.run("begin isolation level repeatable read read only")
            case Server.SQLITE:
                self.run("begin")
            case _:
                assert_never(self.server)
        if lock is not None:
            self.run(f"lock table {lock} in access share mode")
        yield
        # Only where all went well: after an error the connection is closed, which ends the transaction too.
        self.run("commit")


@contextmanager
def open_session(url: SourceUrl, *, source_name: str, timeout_us: int) -> Iterator[TableSession]:
    """Connect to the database of a source."""
    secret = resolve_url(url, source_name=source_name)
    server, connection = _connect(secret, source_name)
    session = TableSession(source_name, server, connection)
    try:
        if server is Server.POSTGRESQL:
            settings = {
                # Statements here have many parts and are short: compiling one takes longer than it runs.
                "jit": "off",
                "statement_timeout": str(timeout_us // 1_000),
                "lock_timeout": str(timeout_us // 1_000),
                "idle_in_transaction_session_timeout": str(timeout_us // 1_000),
                "default_transaction_read_only": "on",
                # Positions are written as text and read again: these decide what the text means.
                "timezone": "UTC",
                "datestyle": "ISO, YMD",
                "standard_conforming_strings": "on",
            }
            calls = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
            session.rows(f"select {calls}")
        yield session
    finally:
        connection.close()


def resolve_url(url: SourceUrl, *, source_name: str) -> str:
    """The url with its secrets; it goes to the driver and nowhere else."""
    match url.origin:
        case UrlOrigin.INLINE:
            return url.text
        case UrlOrigin.ENVIRONMENT:
            source = SecretSource(env=url.text)
        case UrlOrigin.FILE:
            source = SecretSource(file=url.text)
        case _:
            assert_never(url.origin)
    try:
        return read_secret(source).strip()
    except ConfigError as error:
        raise ConfigError(f"source {source_name}: its url: {error}. Nothing was taken") from None


def _connect(secret: str, source_name: str) -> tuple[Server, Any]:
    try:
        import adbc_driver_postgresql.dbapi
        import adbc_driver_sqlite.dbapi
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"source {source_name} needs {error.name}; install it with `pip install 'disarray-pipeline[tables]'`"
        ) from error
    if secret.startswith("sqlite://"):
        file = Path(secret.removeprefix("sqlite://")).expanduser()
        if not file.is_file():
            raise SourceUnavailableError.of(source_name, f"there is no file {file}")
        uri = f"file:{quote(str(file.absolute()))}?mode=ro"
        with source_errors(source_name):
            return Server.SQLITE, adbc_driver_sqlite.dbapi.connect(uri, autocommit=True)
    if not re.match(r"postgres(ql)?://|\w+\s*=", secret):
        raise ConfigError(
            f"source {source_name}: its url is not one of PostgreSQL or SQLite. Nothing was taken. Write "
            "postgresql://user:password@host:5432/database or sqlite:///path/to/file"
        )
    refuse_unreadable(secret)
    with source_errors(source_name):
        return Server.POSTGRESQL, adbc_driver_postgresql.dbapi.connect(_patient(secret), autocommit=True)


def _patient(dsn: str) -> str:
    """The same DSN with limits to how long a host may say nothing, unless it has its own.

    A host that is gone without a word would else be waited for until the kernel gives up: hours.
    """
    missing = [f"{name}={value}" for name, value in _LIMITS.items() if name not in dsn]
    if "://" not in dsn:
        return " ".join([dsn, *missing])
    return dsn + "".join(f"{'&' if '?' in dsn or index else '?'}{each}" for index, each in enumerate(missing))


@contextmanager
def source_errors(source_name: str) -> Iterator[None]:
    """Errors of the drivers as ours, without secrets."""
    import adbc_driver_manager

    try:
        yield
    except adbc_driver_manager.Error as error:
        raise _translated(source_name, error) from None


def _translated(source_name: str, error: Any) -> SourceError:
    state = error.sqlstate or ""
    # Only the first lines: what follows is the statement.
    reason = redact(str(error).partition("\n\nQuery was")[0].strip().partition("[libpq] ")[2] or str(error))
    reason = " ".join(reason.split())
    if state in ("57014", "55P03", "25P03"):
        return SourceTimeoutError.of(source_name, reason)
    if state == "42501" or state.startswith("28") or "authentication failed" in reason:
        return SourceAccessError.of(source_name, reason)
    if state in ("42P01", "42703", "3F000") or "no such" in reason:
        return SourceLayoutError.of(source_name, reason)
    if (
        state.startswith(("08", "57P", "53"))
        or type(error).__name__ == "OperationalError"
        or "connection" in reason.lower()
    ):
        return SourceUnavailableError.of(source_name, reason)
    return SourceError.of(source_name, reason)
