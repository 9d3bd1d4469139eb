"""Initial loads of table sources: chunks of a key, who reads them now, and what they delivered."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from disarray.control.calls import call, fetch_records, fetch_rows, fetch_value, find_record
from disarray.control.metadata import as_jsonb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from disarray.control.connections import Connection
    from disarray.control.deliveries import BatchCounts
    from disarray.control.queue import Holder
    from disarray.control.sources import SourceTurn

# A position in the order of the key, as the program writes it.
Key = list[Any]


@dataclass(frozen=True)
class SourceLoad:
    """An initial load under way; it is due unless its source is paused or a failure is waited for."""

    load_id: int
    plan: dict[str, Any]
    open_transactions: list[str]
    key_end: Key
    cut_up_to: Key | None
    is_cut: bool
    unread_chunks: int
    failure_count: int
    is_due: bool


@dataclass(frozen=True)
class SourceChunk:
    """A claimed stretch of the key, behind `key_from` and up to `key_to`; None: without an end there.

    `read_under` is the snapshot under which it was read before; `is_final`: it need not be read again.
    """

    chunk_no: int
    key_from: Key | None
    key_to: Key | None
    read_under: dict[str, Any] | None
    fence: int
    is_final: bool


@dataclass(frozen=True)
class LoadRecord:
    """The newest initial load of a source as a person sees it."""

    pipeline_name: str
    table_name: str
    state: str  # of the enum source_load_state
    chunks_done: int
    chunks_cut: int
    is_cut: bool
    open_transactions: int
    rows_estimated: int
    rows_taken: int
    rows_rejected: int
    notices: list[str]
    started_at: datetime
    last_delivered_at: datetime | None
    ended_at: datetime | None
    failure_count: int
    last_error: str | None


def begin_source_load(
    connection: Connection,
    turn: SourceTurn,
    *,
    plan: Mapping[str, Any],
    open_transactions: Sequence[str],
    key_end: Sequence[Any],
    rows_estimated: int,
) -> int:
    """Begin a load, in one transaction with the `advance_source` that lets the watermark begin behind it."""
    return fetch_value(
        connection,
        int,
        "select disarray.begin_source_load(%s, %s, %s, %s, %s, %s, %s::text[], %s, %s)",
        (*turn.key, Jsonb(dict(plan)), list(open_transactions), Jsonb(list(key_end)), rows_estimated),
    )


def find_source_load(connection: Connection, pipeline_name: str, table_name: str) -> SourceLoad | None:
    """The load of a source that is under way; None where there is none."""
    return find_record(
        connection,
        SourceLoad,
        "select * from disarray.find_source_load(%s, %s)",
        (pipeline_name, table_name),
    )


def settle_source_load(connection: Connection, load_id: int, open_transactions: Sequence[str]) -> None:
    """Note which of the transactions that a load waits for are still open."""
    call(connection, "select disarray.settle_source_load(%s, %s::text[])", (load_id, list(open_transactions)))


def add_source_chunks(
    connection: Connection,
    load_id: int,
    *,
    cut_up_to: Sequence[Any] | None,
    ends: Sequence[Sequence[Any]],
    is_last: bool,
) -> bool:
    """Add chunks behind the last one that was cut; False where another worker cut meanwhile."""
    return fetch_value(
        connection,
        bool,
        "select disarray.add_source_chunks(%s, %s, %s::jsonb[], %s)",
        (
            load_id,
            None if cut_up_to is None else Jsonb(list(cut_up_to)),
            [Jsonb(list(end)) for end in ends],
            is_last,
        ),
    )


def claim_source_chunks(
    connection: Connection, load_id: int, holder: Holder, *, lease_seconds: int, limit: int
) -> list[SourceChunk]:
    """Claim chunks under one fence, those first that nobody has read; none where all are held or have to wait."""
    rows = fetch_rows(
        connection,
        """
            select chunk_no, key_from, key_to, read_under, fence, is_final
            from disarray.claim_source_chunks(%s, %s, %s, %s, %s)
            order by chunk_no
            """,
        (load_id, holder.instance_name, holder.incarnation, lease_seconds, limit),
    )
    return [SourceChunk(*row) for row in rows]


def renew_source_chunks(
    connection: Connection, load_id: int, holder: Holder, fence: int, *, lease_seconds: int
) -> int:
    """Keep the chunks of a claim for longer; how many are still held."""
    return fetch_value(
        connection,
        int,
        "select disarray.renew_source_chunks(%s, %s, %s, %s, %s)",
        (load_id, holder.instance_name, holder.incarnation, fence, lease_seconds),
    )


def complete_source_chunk(
    connection: Connection,
    load_id: int,
    chunk: SourceChunk,
    holder: Holder,
    *,
    counts: BatchCounts,
    read_under: Mapping[str, Any] | None,
    reached: Sequence[Any] | None,
    notices: Sequence[str],
) -> None:
    """End a chunk; in one transaction with `record_deliveries`, and before it: this locks and checks its row.

    With `read_under` it is read again once no transaction is waited for; with `reached` it ends there, and its rest is
    a chunk of its own.
    """
    call(
        connection,
        "select disarray.complete_source_chunk(%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            load_id,
            chunk.chunk_no,
            holder.instance_name,
            holder.incarnation,
            chunk.fence,
            as_jsonb(asdict(counts)),
            None if read_under is None else Jsonb(dict(read_under)),
            None if reached is None else Jsonb(list(reached)),
            Jsonb(list(notices)),
        ),
    )


def release_source_chunks(
    connection: Connection,
    load_id: int,
    holder: Holder,
    fence: int,
    *,
    error: str | None,
    next_in: timedelta,
) -> None:
    """Give chunks of a claim back that were not read: when the load goes on, and what went wrong."""
    call(
        connection,
        "select disarray.release_source_chunks(%s, %s, %s, %s, %s, %s)",
        (load_id, holder.instance_name, holder.incarnation, fence, error, next_in),
    )


def end_source_load(connection: Connection, load_id: int) -> bool:
    """End a load of which every chunk is done; False where one is left."""
    return fetch_value(connection, bool, "select disarray.end_source_load(%s)", (load_id,))


def list_source_loads(connection: Connection) -> list[LoadRecord]:
    """The newest load of each source, by name and table."""
    return fetch_records(connection, LoadRecord, "select * from disarray.list_source_loads()")
