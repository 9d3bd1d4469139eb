"""A table with random writers, stepped one statement at a time, and three ways to read it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import make_conninfo

from disarray.formats.loader import load_datasets, load_sources
from disarray.sources.table_extract import extract
from disarray.sources.table_session import open_session

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.table_session import TableSession

READER = "plain_reader"
DESCRIPTION = """
[[dataset]]
name = "historian"
roots = ["landing/historian"]
files = ["**/*.parquet"]
format = "parquet"
subject = { delivery = "folders" }
event_time = { from = "at", layouts = ["iso"] }
zone = "UTC"
segment = "1 h"
restate_after = "0 s"
key = ["id"]
order_by = ["id"]
[dataset.columns.id]
type = "int64"
[dataset.columns.watts]
type = "float64"
[dataset.metrics.total]
kind = "sum"
input = "watts"

[[source]]
name = "historian"
kind = "table"
url = { env = "HISTORIAN_URL" }
table = "public.readings"
key = ["id"]
subject = "tool"
"""
WATERMARKS = {
    "timestamp": 'watermark = "timestamp"\ncursor = "updated_at"\nbuffer = "0 s"\n',
    "sequence": 'watermark = "sequence"\ncursor = "changed"\n',
    "cached sequence": 'watermark = "sequence"\ncursor = "changed"\n',
    "snapshot": 'watermark = "snapshot"\n',
    "buffer": 'watermark = "buffer"\ncursor = "updated_at"\nbuffer = "10 min"\n',
}


def make_table(dsn: str, *, cache: int = 1) -> None:
    """The table of a historian, and a login that may read it and nothing else."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(
            f"""
            create table public.readings (
                id bigint primary key, tool text, at timestamptz not null, watts float8,
                updated_at timestamptz not null default now(), changed bigint not null, version int
            );
            create index on public.readings (updated_at, id);
            create sequence public.changes cache {cache} owned by public.readings.changed;
            alter table public.readings alter changed set default nextval('public.changes');
            create sequence public.ids cache 7;
            do $$ begin create role {READER} login; exception when duplicate_object then null; end $$;
            grant select on public.readings to {READER};
            """.encode()
        )


def reader_url(dsn: str) -> str:
    """The same database as a login that may only read the table."""
    return make_conninfo(dsn, user=READER)


def described(folder: Path, watermark: str, **more: object) -> tuple[TableSource, Dataset]:
    """The source and its dataset."""
    file = folder / "disarray.toml"
    file.write_text(
        DESCRIPTION
        + WATERMARKS[watermark]
        + "".join(f"{name} = {json.dumps(value)}\n" for name, value in more.items())
    )
    [dataset] = load_datasets(file)
    [source] = load_sources(file, {dataset.name: dataset})
    return source, dataset


@dataclass
class Reader:
    """Takes extracts, and keeps of each row version when it came."""

    source: TableSource
    dataset: Dataset
    watermark: dict[str, Any] | None = None
    layout: dict[str, Any] | None = None
    notices: list[str] = field(default_factory=list)
    taken: list[tuple[int, float]] = field(default_factory=list)
    _session: TableSession | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        """End its session."""
        self._stack.close()
        self._session = None

    def extract(self) -> bool:
        """One extract; whether it came to the end."""
        source = self.source
        if self._session is None:
            self._session = self._stack.enter_context(
                open_session(source.url, source_name=source.name, timeout_us=source.timeout_us)
            )
        found = extract(
            self._session,
            source,
            self.dataset,
            watermark=self.watermark,
            layout=self.layout,
            notices=self.notices,
        )
        rows = [row for part in found.parts.values() for row in part.to_pylist()]
        assert found.counts.taken == len(rows) <= source.limit
        self.taken += [(row["id"], row["watts"]) for row in rows]
        # As the control database would keep it.
        self.watermark = json.loads(json.dumps(found.watermark))
        self.layout = json.loads(json.dumps(found.layout))
        self.notices = list(found.notices)
        return found.is_complete

    def current(self) -> dict[int, float]:
        """What the readings say: of each key, what came last."""
        return dict(self.taken)


@dataclass
class UsualReader:
    """Reads as pipelines usually do: `updated_at > watermark`, perhaps with a lag."""

    connection: psycopg.Connection[Any]
    lag: str
    watermark: Any = None
    current: dict[int, float] = field(default_factory=dict)

    def extract(self) -> None:
        """Everything behind the greatest stamp of the last extract."""
        rows = self.connection.execute(
            """
            select id, watts, updated_at from public.readings
            where (updated_at > %s or %s::timestamptz is null) and updated_at <= clock_timestamp() - %s::interval
            """,
            (self.watermark, self.watermark, self.lag),
        ).fetchall()
        self.current |= {row[0]: row[1] for row in rows}
        self.watermark = max([row[2] for row in rows], default=self.watermark)


class Writers:
    """Several sessions that change the table, one random step at a time; every version has a number of its own."""

    def __init__(self, dsn: str, chance: random.Random, sessions: int = 4) -> None:
        self.chance = chance
        self.versions = 0.0
        self.connections = [psycopg.connect(dsn, autocommit=True) for _ in range(sessions)]
        self.savepoints = [0] * sessions
        self.is_open = [False] * sessions

    def step(self) -> None:
        """One statement of one session."""
        index = self.chance.randrange(len(self.connections))
        connection, chance = self.connections[index], self.chance
        if not self.is_open[index]:
            if chance.random() < 0.6:
                connection.execute("begin")
                self.is_open[index], self.savepoints[index] = True, 0
            self._write(connection)
            return
        action = chance.choices(
            ["write", "savepoint", "release", "back", "commit", "rollback"],
            [8, 3, 1, 1, 2 if index else 0.3, 0.5],
        )[0]
        if action == "write":
            self._write(connection)
        elif action == "savepoint":
            self.savepoints[index] += 1
            connection.execute(f"savepoint s{self.savepoints[index]}".encode())
        elif action in ("release", "back"):
            if self.savepoints[index]:
                word = "release" if action == "release" else "rollback to"
                connection.execute(f"{word} savepoint s{self.savepoints[index]}".encode())
                self.savepoints[index] -= action == "release"
        else:
            connection.execute(action.encode())
            self.is_open[index] = False

    def end(self) -> None:
        """All commit what they have, in some order."""
        for index in self.chance.sample(range(len(self.connections)), len(self.connections)):
            if self.is_open[index]:
                self.connections[index].execute("commit")
                self.is_open[index] = False

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    def _write(self, connection: psycopg.Connection[Any]) -> None:
        stamp = self.chance.choice(["now()", "now()", "clock_timestamp()"])
        if self.chance.random() < 0.55:
            for _ in range(self.chance.randint(1, 3)):
                self.versions += 1
                connection.execute(
                    f"""
                    insert into public.readings (id, tool, at, watts, updated_at)
                    values (nextval('public.ids'), 'TOOL07', '2026-03-02 12:00+00', %s, {stamp})
                    """.encode(),
                    (self.versions,),
                )
            return
        self.versions += 1
        connection.execute(
            f"""
            update public.readings set watts = %s, updated_at = {stamp}, changed = nextval('public.changes')
            where id in (
                select id from public.readings order by random() for update skip locked limit 1
            )
            """.encode(),
            (self.versions,),
        )


def table_rows(connection: psycopg.Connection[Any]) -> dict[int, float]:
    """What the table says in the end."""
    return dict(connection.execute("select id, watts from public.readings").fetchall())
