"""A table of a user, and the processes that change it in chunks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from disarray.backfill.chunk_worker import ChunkWorker
from disarray.backfill.description import UpdateSpec
from disarray.backfill.job_file import parse_spec
from disarray.backfill.job_session import open_in_database, open_job
from disarray.backfill.serving_jobs import JobServer
from disarray.backfill.starting import start_backfill
from disarray.config import default_config
from disarray.control import backfills, connections, instances
from tests.sinks.conftest import target_dsn  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from disarray.control.backfills import BackfillRecord
    from disarray.control.connections import Connection

ROWS = 100
TABLE = """
create schema shop;
create table shop.orders (
    id bigint primary key,
    gross numeric(10, 2) not null,
    tax double precision not null,
    net double precision,
    touched integer not null default 0,
    note text,
    effects integer not null default 0
);
create function shop.count_effect() returns trigger language plpgsql as
$$ begin if new.touched is distinct from old.touched then new.effects := old.effects + 1; end if; return new; end $$;
create trigger count_effect before update on shop.orders for each row execute function shop.count_effect();
insert into shop.orders (id, gross, tax, note)
select n * 3, n * 1.5, n / 7.0, case when n % 5 <> 0 then 'order ' || n end from generate_series(1, 100) as n;
"""
ADD_ONE: dict[str, Any] = {
    "name": "add_one",
    "source": {"table": "shop.orders", "cursor_column": "id", "batch_size": 20},
    "update": {"set": {"touched": "touched + 1"}},
    "processing": {"max_batch_size": 20, "min_batch_size": 20, "cut_ahead": 3},
}


def merged(*documents: Mapping[str, Any]) -> dict[str, Any]:
    """Descriptions laid over each other, table by table."""
    result: dict[str, Any] = {}
    for document in documents:
        for key, value in document.items():
            known = result.get(key)
            result[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def spec_of(*documents: Mapping[str, Any]) -> UpdateSpec:
    spec = parse_spec(merged(*documents), shown="job.toml", config=default_config())
    assert isinstance(spec, UpdateSpec)
    return spec


class Shop:
    """A database with a table of orders, and workers that serve its backfills."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.connection: Connection = connections.connect(dsn)
        self._opened: list[Any] = []

    def start(self, *documents: Mapping[str, Any]) -> int:
        return start_backfill(self.dsn, spec_of(ADD_ONE, *documents), reason="test", by="ada")

    def worker(self, job_id: int, name: str = "Worker01") -> ChunkWorker:
        """A worker with connections of its own, to be stepped by hand."""
        [job] = [job for job in backfills.list_active_backfills(self.connection) if job.job_id == job_id]
        opened = open_job(
            self.dsn,
            job_id,
            job_key=job.job_key,
            kind=job.kind,
            description=job.description,
            lease_seconds=60,
            open_kind=open_in_database,
        )
        session = opened.__enter__()
        self._opened.append(opened)
        return ChunkWorker(session, instances.register_instance(self.connection, name), lease_seconds=60)

    def run(self, job_id: int, *, threads: int = 1, name: str = "Worker01") -> BackfillRecord:
        """One process that works on a job until it has ended."""
        holder = instances.register_instance(self.connection, name)
        JobServer(dsn=self.dsn, holder=holder, lease_seconds=60).run_job(
            job_id, threading.Event(), threads=threads
        )
        return self.job(job_id)

    def job(self, job_id: int) -> BackfillRecord:
        [job] = backfills.list_backfills(self.connection, job_id=job_id)
        return job

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode()).fetchall()

    def effects(self) -> set[int]:
        """How often rows were transformed: what the trigger counted, and what the expression made of it."""
        return {
            count for row in self.rows("select distinct effects, touched from shop.orders") for count in row
        }

    def fill(self) -> None:
        """A hundred orders, none of them touched."""
        self.connection.execute(TABLE.encode())

    def clear(self) -> None:
        """As if there had never been an order or a backfill."""
        for opened in self._opened:
            opened.__exit__(None, None, None)
        self._opened.clear()
        self.connection.execute("drop schema shop cascade; truncate disarray.backfill_job cascade")

    def close(self) -> None:
        for opened in self._opened:
            opened.__exit__(None, None, None)
        self.connection.close()


@pytest.fixture
def shop(dsn: str) -> Iterator[Shop]:
    """A hundred orders in the database of disarray."""
    built = Shop(dsn)
    built.fill()
    yield built
    built.close()
