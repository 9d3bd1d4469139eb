"""Tables of readings: made, filled and read. Copying is done here as well, since nobody else talks to the database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from disarray.control.calls import call, fetch_records, fetch_rows, fetch_value
from disarray.control.translation import translated_errors
from disarray.model.description.readings_table import (
    CHANNEL_COLUMN,
    EVENT_AT,
    ORDINAL,
    SUBJECT_KEY,
    readings_table,
)
from disarray.model.segments import datetime_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder
    from disarray.model.description.dataset import Dataset, Store
    from disarray.model.description.readings_table import ReadingsTable


@dataclass(frozen=True, slots=True)
class WaitingCopy:
    """A subject whose readings are not, or not all, where the store of its dataset says."""

    subject_key: str
    segments: int
    readings: int


def provision_readings(connection: Connection, dataset: Dataset) -> Store:
    """Make sure that the dataset has its table, if its readings go to one; the store that is in force."""
    store = fetch_value(
        connection,
        str,
        "select disarray.provision_readings(%s, %s, %s::jsonb)",
        (dataset.name, dataset.store, json.dumps(readings_table(dataset).definition)),
    )
    return type(dataset.store)(store)


def change_store(connection: Connection, dataset: Dataset, store: Store) -> None:
    """From now on commits fill the table of the dataset, or leave it; what is there waits for `queue_copies`."""
    call(
        connection,
        "select disarray.change_store(%s, %s, %s::jsonb)",
        (dataset.name, store, json.dumps(readings_table(dataset).definition)),
    )


def flatten_running_views(connection: Connection) -> None:
    """Put in place the running views of former programs that read through `segment_metric`."""
    call(connection, "select disarray.flatten_running_views()")


def store_of(connection: Connection, dataset: Dataset) -> Store:
    """Where the readings of a dataset live, as the catalog has it."""
    return type(dataset.store)(fetch_value(connection, str, "select disarray.store_of(%s)", (dataset.name,)))


def queue_copies(connection: Connection, dataset: str, *, by: str, subject_key: str | None = None) -> int:
    """Queue the subjects whose readings are not where the store says; how many were not queued already."""
    return fetch_value(
        connection, int, "select disarray.queue_copies(%s, %s, %s)", (dataset, by, subject_key)
    )


def list_copies(connection: Connection, dataset: str) -> list[WaitingCopy]:
    """The subjects whose readings are not where the store says, by name."""
    return fetch_records(connection, WaitingCopy, "select * from disarray.list_copies(%s)", (dataset,))


def prepare_months(connection: Connection, dataset: str, segments: Sequence[int]) -> int:
    """Create the partitions that rows of these segments need, in a transaction of its own; how many."""
    return fetch_value(
        connection, int, "select disarray.prepare_months(%s, %s::bigint[])", (dataset, list(segments))
    )


def number_sources(connection: Connection, source_uris: Collection[str]) -> dict[str, int]:
    """The numbers that stand for some uris in tables of readings."""
    rows = fetch_rows(
        connection,
        "select source_uri, source_id from disarray.number_sources(%s::text[])",
        (sorted(source_uris),),
    )
    return dict(rows)


def name_sources(connection: Connection, source_ids: Collection[int]) -> dict[int, str]:
    """The uris that some numbers stand for."""
    rows = fetch_rows(
        connection,
        "select source_id, source_uri from disarray.name_sources(%s::integer[])",
        (sorted(source_ids),),
    )
    return dict(rows)


def clear_rows(
    connection: Connection,
    dataset: str,
    subject_key: str,
    holder: Holder,
    *,
    fence: int,
    store: Store,
    kept_of: Mapping[int, int],
) -> dict[str, str]:
    """Make room: the rows of these segments go, but the first so many of each.

    The columns of the table and their types, sure until the commit.
    """
    rows = fetch_rows(
        connection,
        "select name, type from disarray.clear_rows(%s, %s, %s, %s, %s, %s, %s::bigint[], %s::integer[])",
        (
            dataset,
            subject_key,
            holder.instance_name,
            holder.incarnation,
            fence,
            store,
            list(kept_of),
            list(kept_of.values()),
        ),
    )
    return dict(rows)


def copy_in(connection: Connection, table: str, columns: Sequence[str], pieces: Iterable[bytes]) -> None:
    """Stream rows in PostgreSQL's binary format; the caller has compared their types with `clear_rows`."""
    statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(
        sql.Identifier("telemetry", table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with translated_errors(), connection.cursor() as cursor, cursor.copy(statement) as copy:
        for piece in pieces:
            copy.write(piece)


def copy_out(
    connection: Connection,
    table: ReadingsTable,
    subject_key: str,
    *,
    relation: str,
    segment_us: int,
    columns: Sequence[str],
    channels: Collection[str] | None = None,
) -> bytes:
    """The rows of a segment in canonical order as CSV without a header; instants are microseconds since 1970.

    They are read from the `relation` that `rows_relation` answers.
    """
    cells = [
        sql.SQL("(extract(epoch from {}) * 1000000)::bigint").format(sql.Identifier(name))
        if name == EVENT_AT
        else sql.Identifier(name)
        for name in columns
    ]
    wanted: sql.Composable = sql.SQL("")
    if channels is not None:
        wanted = sql.SQL("and {} = any({})").format(
            sql.Identifier(CHANNEL_COLUMN), sql.Literal(sorted(channels))
        )
    statement = sql.SQL(
        "copy (select {} from {} where {} = {} and {} >= {} and {} < {} {} order by {}, {}) to stdout (format csv)"
    ).format(
        sql.SQL(", ").join(cells),
        sql.Identifier("telemetry", relation),
        sql.Identifier(SUBJECT_KEY),
        sql.Literal(subject_key),
        sql.Identifier(EVENT_AT),
        sql.Literal(datetime_of(segment_us)),
        sql.Identifier(EVENT_AT),
        sql.Literal(datetime_of(segment_us + table.segment_length_us)),
        wanted,
        sql.Identifier(EVENT_AT),
        sql.Identifier(ORDINAL),
    )
    with translated_errors(), connection.cursor() as cursor, cursor.copy(statement) as copy:
        return b"".join(bytes(piece) for piece in copy)
