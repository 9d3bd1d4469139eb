"""What a PostgreSQL server is like, for those who must decide whether it will do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from disarray.config import redact
from disarray.errors import ConfigError, DatabaseUnreachableError

if TYPE_CHECKING:
    import psycopg

OLDEST_VERSION = 15
ROLES = ("disarray_agent", "disarray_producer", "disarray_worker", "disarray_operator", "disarray_reader")
_CLOCK_SAMPLES = 5


@dataclass(frozen=True)
class ServerInspection:
    """The facts about a server that disarray depends on.

    `clock_offset` is how far the database's clock is ahead of this host's, give or take half of `round_trip`.
    """

    version: str
    major_version: int
    user: str
    missing_roles: tuple[str, ...]
    available_extensions: frozenset[str]
    clock_offset: timedelta
    round_trip: timedelta


def inspect_server(dsn: str, *, timeout_seconds: int = 5) -> ServerInspection:
    """Connect, look, and change nothing."""
    import psycopg

    from disarray.control.connections import refuse_unreadable

    try:
        refuse_unreadable(dsn)
    except ConfigError as problem:
        raise DatabaseUnreachableError(str(problem)) from problem
    try:
        with psycopg.connect(
            dsn, autocommit=True, connect_timeout=timeout_seconds, application_name="disarray doctor"
        ) as connection:
            connection.execute("set default_transaction_read_only = on")
            connection.execute("select set_config('statement_timeout', %s, false)", [f"{timeout_seconds}s"])
            return _inspect(connection)
    except psycopg.Error as problem:
        raise DatabaseUnreachableError(
            f"PostgreSQL at {redact(dsn)} cannot be used: {str(problem).strip()}. Nothing was changed. "
            "Check that it runs, that the address is right and that this user may connect."
        ) from problem


def _inspect(connection: psycopg.Connection[tuple[object, ...]]) -> ServerInspection:
    roles = {row[0] for row in connection.execute("select rolname from pg_catalog.pg_roles")}
    extensions = connection.execute("select name from pg_catalog.pg_available_extensions")
    clock_offset, round_trip = _clock_offset(connection)
    return ServerInspection(
        version=connection.info.parameter_status("server_version") or "unknown",
        major_version=connection.info.server_version // 10000,
        user=connection.info.user,
        missing_roles=tuple(role for role in ROLES if role not in roles),
        available_extensions=frozenset(str(name) for (name,) in extensions),
        clock_offset=clock_offset,
        round_trip=round_trip,
    )


def _clock_offset(connection: psycopg.Connection[tuple[object, ...]]) -> tuple[timedelta, timedelta]:
    """Compare the clocks by the fastest of a few exchanges: the slow ones measure the network."""
    samples = []
    for _ in range(_CLOCK_SAMPLES):
        before = datetime.now(UTC)
        row = connection.execute("select pg_catalog.clock_timestamp()").fetchone()
        after = datetime.now(UTC)
        assert row is not None
        database = row[0]
        assert isinstance(database, datetime)
        samples.append((after - before, database - (before + (after - before) / 2)))
    round_trip, offset = min(samples)
    return offset, round_trip
