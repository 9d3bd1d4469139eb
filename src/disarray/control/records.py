"""Arrays of composite types as arguments: records that are made already, in PostgreSQL's own binary form."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from disarray.control.calls import fetch_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.abc import Buffer

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class Records:
    """So many records of one composite type, as their array has them, in some pieces."""

    count: int
    pieces: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class RecordArray:
    """Records as the argument of a function; the statement casts it to an array of their type."""

    type_number: int
    records: Records


class _RecordArrayDumper(Dumper):
    format = Format.BINARY
    # The server takes the type from the cast; it refuses records of another.
    oid = 0

    def dump(self, obj: RecordArray) -> Buffer:
        count = obj.records.count
        shape = (1, 0, obj.type_number, count, 1) if count else (0, 0, obj.type_number)
        return b"".join([struct.pack(f">{len(shape)}i", *shape), *obj.records.pieces])


psycopg.adapters.register_dumper(RecordArray, _RecordArrayDumper)


def type_numbers(connection: Connection) -> tuple[int, int]:
    """The numbers that this database has for the types `scanned_summary` and `scanned_rollup`."""
    [(summary, rollup)] = fetch_rows(
        connection,
        "select 'disarray.scanned_summary'::regtype::oid::bigint, 'disarray.scanned_rollup'::regtype::oid::bigint",
    )
    return summary, rollup
