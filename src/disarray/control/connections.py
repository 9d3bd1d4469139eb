"""Connections to the control database, with limits that keep a frozen client from holding up the others."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from disarray.control.translation import SESSION_TIMEOUT_CODES, broken_off, translated_errors
from disarray.errors import ConfigError, DatabaseUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

Connection = psycopg.Connection[TupleRow]


class Pool(ConnectionPool[Connection]):
    """Connections to share. A database that is away is one of our errors here too, where a connection is asked for."""

    def getconn(self, timeout: float | None = None) -> Connection:
        """A connection that answers, or `DatabaseUnavailableError` once none could be had in time."""
        with translated_errors():
            return super().getconn(timeout)


@dataclass(frozen=True)
class SessionLimits:
    """How long a session may keep the database waiting, in milliseconds."""

    statement_ms: int
    lock_ms: int
    idle_in_transaction_ms: int
    tcp_ms: int

    @classmethod
    def for_lease(cls, lease_seconds: float) -> SessionLimits:
        """Limits below half the lease.

        A worker that freezes inside a commit still holds the row of its subject when the lease ends. The server
        has to cut it off before that, or its successor would wait for a process that may never wake up.
        """
        half_ms = lease_seconds * 500
        return cls(
            statement_ms=max(1, int(half_ms * 0.9)),
            lock_ms=max(1, int(half_ms * 0.3)),
            idle_in_transaction_ms=max(1, int(half_ms * 0.5)),
            tcp_ms=max(1, int(half_ms * 0.9)),
        )


DEFAULT_LIMITS = SessionLimits.for_lease(300)


def session_parameters(limits: SessionLimits, application_name: str) -> dict[str, Any]:
    """Connection parameters that put the limits in force from the first statement on."""
    settings = {
        "statement_timeout": limits.statement_ms,
        "lock_timeout": limits.lock_ms,
        "idle_in_transaction_session_timeout": limits.idle_in_transaction_ms,
        "TimeZone": "UTC",
        # Our statements are short and have many parts: compiling a commit took 4 s, running it 3 ms.
        "jit": "off",
    }
    return {
        "application_name": application_name,
        "connect_timeout": 10,
        "tcp_user_timeout": limits.tcp_ms,
        "keepalives": 1,
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
    }


def refuse_unreadable(dsn: str) -> None:
    """Refuse a DSN that libpq would not read, and would print in its error with the password."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        parts = None
    # A password with an @ that is not written as %40 ends up in the host, and with it in the error; one with a / that
    # is not written as %2F ends up in the port and in the name of the database.
    if (
        parts is None
        or any("@" in str(parts.get(name) or "") for name in ("host", "hostaddr", "port", "dbname"))
        or not all(each.isdecimal() for each in str(parts.get("port") or "0").split(","))
    ):
        raise ConfigError(
            "the DSN of the database cannot be read. Nothing was changed. It is not shown here, because it may hold a "
            "password. Write postgresql://user:password@host:5432/database with %20 for a space, %40 for an @ and %2F "
            "for a /, or host=… dbname=…"
        )


def connect(
    dsn: str, *, limits: SessionLimits = DEFAULT_LIMITS, application_name: str = "disarray"
) -> Connection:
    """One connection in autocommit mode: each call is a transaction, unless a caller opens a larger one."""
    refuse_unreadable(dsn)
    with translated_errors():
        return psycopg.connect(dsn, autocommit=True, **session_parameters(limits, application_name))


def open_pool(
    dsn: str,
    *,
    limits: SessionLimits = DEFAULT_LIMITS,
    application_name: str = "disarray",
    max_size: int = 4,
) -> Pool:
    """A pool that checks every connection before it hands it out, so that a restarted server costs nobody a call."""
    refuse_unreadable(dsn)
    return Pool(
        dsn,
        connection_class=Connection,
        kwargs={"autocommit": True, **session_parameters(limits, application_name)},
        min_size=1,
        max_size=max_size,
        check=ConnectionPool.check_connection,
        timeout=10,
        # The pool waits twice as long after each failed attempt. Given up early, the next who asks for a connection
        # starts over at once: a server that is back is found within seconds, however long it was away.
        reconnect_timeout=5,
        open=True,
        name=application_name,
    )


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Several calls that take effect together or not at all; a lost reply to the commit is one of our errors too.

    A transaction that the server broke off for its time is told as that: it did not take effect, and nothing is away.
    """
    reasons: list[str] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        # The server says why and hangs up. Met between two statements, that is a notice, and the next statement knows
        # only of a broken connection.
        if diagnostic.sqlstate in SESSION_TIMEOUT_CODES:
            reasons.append(diagnostic.message_primary or "a time limit")

    connection.add_notice_handler(note)
    try:
        with translated_errors(), connection.transaction():
            yield
    except DatabaseUnavailableError as error:
        if reasons:
            raise broken_off(reasons[0]) from error
        raise
    finally:
        connection.remove_notice_handler(note)


@contextmanager
def undone(connection: Connection) -> Iterator[None]:
    """Calls that see what the others inside did, and of which nothing is left afterwards."""
    with translated_errors(), connection.transaction(force_rollback=True):
        yield
