"""The one server that all contenders share, and a fresh database for each."""

from __future__ import annotations

import contextlib
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from disarray import embedded

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE = Path(".disarray/benchmark")
# What a figure depends on; the first three must be the same for all, and on.
SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "jit")


@dataclass(frozen=True)
class Server:
    """A PostgreSQL on which databases may be created."""

    dsn: str
    version: str
    settings: dict[str, str]

    def describe(self) -> dict[str, object]:
        """What the results say of it; the address is nobody's business."""
        return {key: value for key, value in asdict(self).items() if key != "dsn"}

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """The DSN of a new database, which goes when the block ends."""
        unique = sql.Identifier(f"benchmark_{name}_{uuid.uuid4().hex[:8]}")
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("create database {} template template0 encoding 'UTF8'").format(unique))
        try:
            yield psycopg.conninfo.make_conninfo(self.dsn, dbname=unique.as_string().strip('"'))
        finally:
            with psycopg.connect(self.dsn, autocommit=True) as admin:
                admin.execute(sql.SQL("drop database {} with (force)").format(unique))


@contextmanager
def shared_server(dsn: str | None) -> Iterator[Server]:
    """The server of the DSN, or an embedded one that is stopped afterwards. Refused unless commits are durable."""
    with contextlib.ExitStack() as stack:
        if dsn is None:
            dsn = embedded.start(STATE).dsn
            stack.callback(embedded.stop, STATE)
        with psycopg.connect(dsn, autocommit=True) as connection:
            version = connection.info.parameter_status("server_version") or "unknown"
            settings = {name: _setting(connection, name) for name in SETTINGS}
        if settings["fsync"] != "on" or settings["synchronous_commit"] != "on":
            raise SystemExit(
                "the server does not wait for the disk (fsync, synchronous_commit): nothing was measured"
            )
        yield Server(dsn, version, settings)


def settle(dsn: str) -> None:
    """Vacuum and analyze a database, so that no contender pays in one round for what another round left behind."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def processor_seconds(backend_pid: int) -> float | None:
    """What a backend took of the processors so far; None where the server is elsewhere, or not on Linux."""
    try:
        return int(Path(f"/proc/{backend_pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return None


def _setting(connection: psycopg.Connection[tuple[object, ...]], name: str) -> str:
    row = connection.execute("select current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])
