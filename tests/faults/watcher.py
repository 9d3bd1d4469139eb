"""A reader that looks all through a test: whatever it sees is what the files that are in say, never half of one."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg import sql

from tests.arrivals import differences, stored_by
from tests.faults.deliveries import VERSIONS

if TYPE_CHECKING:
    from datetime import datetime

    from tests.faults.deliveries import Deliveries, Versions
    from tests.oracle import Table

_POLL_SECONDS = 0.02
# Which rows there are, and who wrote each: any change at all changes this.
_WRITERS = " union all ".join(
    f"select '{table}', count(*)::bigint, coalesce(sum(xmin::text::bigint), 0)::bigint from disarray.{table}"
    for table in (
        *("segment", "segment_summary", "metric_block", "rollup_block"),
        *("fragment", "dirty_range", "file_info"),
    )
)
# What a base shift that is still to come may leave behind, and the only thing that may be stale.
_SHIFTED = ("base_", "before_", "prior_")


@dataclass(frozen=True)
class Sight:
    """One moment: which versions were in, what the tables said, and from when on numbers were known to be stale."""

    versions: Versions
    tables: dict[str, Table]
    stale_from: dict[str, datetime]
    half_tables: list[str]


class Watcher:
    """Polls in a thread of its own until the block ends."""

    def __init__(self, dsn: str, deliveries: Deliveries) -> None:
        self.sights: list[Sight] = []
        self.polls = 0
        self._dsn = dsn
        self._deliveries = deliveries
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def problems(self) -> list[str]:
        """What was seen that must never be seen."""
        found = []
        for number, sight in enumerate(self.sights):
            expected = self._deliveries.expected(sight.versions)
            wrong = [
                text
                for text in differences(sight.tables, expected)
                if not (sight.stale_from and any(f" {name}" in text for name in _SHIFTED))
            ]
            wrong += sight.half_tables
            found += [f"sight {number} of {len(self.sights)}: {text}" for text in wrong]
        return found

    def _watch(self) -> None:
        former: object = None
        while not self._ended.wait(_POLL_SECONDS):
            try:
                with psycopg.connect(self._dsn, autocommit=True) as connection:
                    while not self._ended.wait(_POLL_SECONDS):
                        former = self._look(connection, former)
            except psycopg.OperationalError:
                continue  # the server is away; so are all readers
            except Exception as error:
                self._failure = error
                return

    def _look(self, connection: psycopg.Connection, former: object) -> object:
        with connection.transaction():
            connection.execute("set transaction isolation level repeatable read, read only")
            writers = connection.execute(_WRITERS.encode()).fetchall()
            self.polls += 1
            if writers == former:
                return former
            versions = frozenset(connection.execute(VERSIONS.encode()).fetchall())
            stale = connection.execute(
                "select subject_key, min(range_start) from disarray.dirty_range where resolved_at is null group by 1"
            ).fetchall()
            halves = _half_tables(connection)
            self.sights.append(Sight(versions, stored_by(connection), dict(stale), halves))
        return writers


def _half_tables(connection: psycopg.Connection) -> list[str]:
    """Tables of readings that have other rows than those the catalog counts in them."""
    found = []
    for dataset, table in connection.execute(
        "select dataset, definition ->> 'table' from disarray.dataset_store where definition is not null"
    ).fetchall():
        row = connection.execute(
            sql.SQL(
                """
                select (select count(*) from telemetry.{}), coalesce(sum(readings), 0) from disarray.segment
                where dataset = {} and table_digest is not null
                """
            ).format(sql.Identifier(table), sql.Literal(dataset))
        ).fetchone()
        if row is None or row[0] != row[1]:
            found.append(f"telemetry.{table}: rows and readings of the catalog are {row}")
    return found
