"""What a PostgreSQL server says of its transactions: who is open, what a snapshot shows, which server it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.errors import SourceReplacedError
from disarray.sources.watermark import SnapshotRead

if TYPE_CHECKING:
    from disarray.model.description.table_source import TableSource
    from disarray.sources.table_session import TableSession

# All transactions of this database, and those that wait for COMMIT PREPARED, whose locks have a name of their own.
_OPEN = """
select distinct held.virtualtransaction::text as transaction
from pg_locks as held
left join pg_stat_activity as backend on held.pid = backend.pid
where held.pid is distinct from pg_backend_pid()
    and ((held.locktype = 'virtualxid' and held.mode = 'ExclusiveLock' and held.granted)
        or held.virtualtransaction like '-1/%')
    and (backend.datid is null or backend.datid = (select oid from pg_database where datname = current_database()))
"""
_SNAPSHOT = """
select pg_snapshot_xmin(now.snapshot)::text::int8 as xmin, pg_snapshot_xmax(now.snapshot)::text::int8 as xmax
from (select pg_current_snapshot() as snapshot) as now
"""
# After a restore or a failover numbers of transactions, and of sequences, may come a second time.
_SERVER = """
select (select system_identifier::text from pg_control_system())
    || '/' || (select timeline_id::text from pg_control_checkpoint()) as server
"""


def server_clock_us(session: TableSession) -> int:
    """The time of the server, in microseconds since 1970."""
    found = session.rows("select (extract(epoch from clock_timestamp()) * 1000000)::int8 as us")
    return int(found.column("us")[0].as_py())


def open_transactions(session: TableSession) -> frozenset[str]:
    """Which transactions are open now. What is no longer listed is in every snapshot that is taken after."""
    return frozenset(session.rows(_OPEN).column("transaction").to_pylist())


def current_snapshot(session: TableSession) -> SnapshotRead:
    """The snapshot under which the session reads; nothing was seen in it yet."""
    found = session.rows(_SNAPSHOT)
    return SnapshotRead(found.column("xmin")[0].as_py(), found.column("xmax")[0].as_py())


def known_server(session: TableSession, source: TableSource, before: str) -> str:
    """Which server it is; refused where it is not the one of before, if there was one."""
    [server] = session.rows(_SERVER).column("server").to_pylist()
    if before and before != server:
        raise SourceReplacedError.of(
            source.name,
            "its database was restored, replaced or failed over since it was last read, so that transactions and "
            "sequence numbers may have come a second time",
        )
    return str(server)


def written_since(read: SnapshotRead, xmax: int) -> str:
    """What is true of rows written by the oldest open transaction or a later one; rows keep 32 bits of its number."""
    return (
        f"((({xmax % 2**32} - xmin::text::int8) & 4294967295) <= {xmax - read.xmin} and xmin::text::int8 > 2)"
    )
