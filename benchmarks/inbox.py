"""How many events a second does the inbox take, and how soon are they readable?

    python -m benchmarks.inbox [--events 200000] [--turns 3]

The same events of twenty presses, 5,000 to a call, one sender: by SQL (`record_events`), by REST (a server process of
its own, JSON lines), and from the inbox to readable values (drained, read, scanned and committed with Spark on two
cores). Beside it what one would write by hand: COPY of the texts into a staging table and `INSERT … SELECT … ON
CONFLICT DO NOTHING` into a table of typed columns with a unique id, committed for every 5,000 as well. Medians of the
turns; Spark is warm.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from benchmarks.goals import Goal, conclude
from benchmarks.plant import Plant, open_plant, spark_session, timed
from benchmarks.server import settle, shared_server
from disarray.control import connections, raw_events, tokens
from disarray.engine.runner import SparkRunner
from disarray.events.http_inbox import HttpInbox
from disarray.model.api_token import Scope, make_token
from disarray.sources.landing import Landing
from disarray.worker.process.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BATCH = 5_000
START = datetime(2026, 3, 2, tzinfo=UTC)
DESCRIPTION = """
[[dataset]]
name = "press"
roots = ["landing/inbox-press"]
files = ["**/*.jsonl"]
format = "jsonl"
subject = { delivery = "folders" }
events = { subject = "tool", id = ["stroke"] }
event_time = { from = "at", layouts = ["iso"] }
zone = "UTC"
segment = "1 d"
key = ["stroke"]
[dataset.columns]
stroke = "string"
force_kn = "float64"
[dataset.metrics.pressed]
kind = "sum"
input = "force_kn"
"""
BARE_TABLES = """
create table staging (event jsonb);
create table stroke (
    stroke text primary key, tool text not null, at timestamptz not null, force_kn double precision
);
create index on stroke (tool, at);
"""
BARE_INSERT = """
insert into stroke
select event ->> 'stroke', event ->> 'tool', (event ->> 'at')::timestamptz, (event ->> 'force_kn')::double precision
from staging
on conflict do nothing
"""


@dataclass(frozen=True)
class Turn:
    """Seconds of one turn."""

    bare: float
    sql: float
    rest: float
    drained: float


def main() -> None:
    """Send the same events in every way, and tell how the ways compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    turns: list[Turn] = []
    with (
        tempfile.TemporaryDirectory(prefix="disarray-bench-") as name,
        shared_server(given.dsn) as server,
        spark_session() as session,
        open_plant(server, Path(name), DESCRIPTION, runner=SparkRunner(session)) as plain,
        server.database("bare") as bare_dsn,
        serve(plain) as inbox,
    ):
        plant = replace(plain, place=replace(plain.place, landing=Landing(Path(name) / "landing")))
        with psycopg.connect(bare_dsn) as bare:
            bare.execute(BARE_TABLES)
        drain(plant, record(plant, make_events(1_000, number=0)))  # Spark and its workers are warm
        for number in range(1, given.turns + 1):
            events, others = (make_events(given.events, number=2 * number + each) for each in range(2))
            settle(plant.dsn)
            settle(bare_dsn)
            turns.append(
                Turn(
                    bare=timed(insert_bare, bare_dsn, events),
                    sql=timed(record, plant, events),
                    drained=timed(drain, plant, given.events),
                    rest=timed(post, inbox, others, number),
                )
            )
            drain(plant, given.events)
            print(turns[-1], flush=True)

    def ratio(way: str) -> float:
        return round(statistics.median(turn.bare / float(getattr(turn, way)) for turn in turns), 3)

    conclude(
        "inbox",
        [
            Goal("events a second recorded by SQL / bare insert", ratio("sql"), 0.4, at_least=True),
            Goal("events a second recorded by REST / bare insert", ratio("rest"), 0.4, at_least=True),
            Goal(
                "events a second from inbox to readable / bare insert", ratio("drained"), 0.4, at_least=True
            ),
        ],
        {
            "events": given.events,
            "batch": BATCH,
            "events_per_second": {
                way: [round(given.events / getattr(turn, way)) for turn in turns]
                for way in ("bare", "sql", "rest", "drained")
            },
        },
    )


def make_events(count: int, *, number: int) -> list[str]:
    """Events that nobody has sent yet, in the order of time."""
    generator = random.Random(number)
    start = START + timedelta(days=number)
    return [
        json.dumps(
            {
                "stroke": f"{number}-{each}",
                "tool": f"PRESS{each % 20:02d}",
                "at": (start + timedelta(milliseconds=200 * each)).isoformat(),
                "force_kn": round(generator.uniform(100, 140), 3),
            }
        )
        for each in range(count)
    ]


def batches(events: Sequence[str]) -> Iterator[Sequence[str]]:
    """What goes into one call."""
    for start in range(0, len(events), BATCH):
        yield events[start : start + BATCH]


def insert_bare(dsn: str, events: Sequence[str]) -> None:
    """What one would write by hand."""
    with psycopg.connect(dsn) as connection:
        connection.execute("set jit = off")
        for batch in batches(events):
            with connection.cursor() as cursor:
                with cursor.copy("copy staging from stdin") as copy:
                    for event in batch:
                        copy.write_row((event,))
                cursor.execute(BARE_INSERT)
                cursor.execute("truncate staging")
            connection.commit()


def record(plant: Plant, events: Sequence[str]) -> int:
    """Put events into the inbox by SQL; how many."""
    with connections.connect(plant.dsn) as connection:
        for batch in batches(events):
            assert raw_events.record_events(connection, "press", batch).new == len(batch)
    return len(events)


def post(inbox: HttpInbox, events: Sequence[str], turn: int) -> None:
    """Put events into the inbox by REST."""
    for number, batch in enumerate(batches(events)):
        assert inbox.post(batch, key=f"{turn}-{number}")["new"] == len(batch)


def drain(plant: Plant, events: int) -> None:
    """Deliver what waits and take it in; all of it is readable then."""
    assert plant.place.inbox is not None
    assert sum(drained.delivered for drained in plant.place.inbox.drain()) == events
    failed = [text for report in Scheduler(plant.place).drain() for text in report.failed.values()]
    assert not failed, failed[:3]


@contextmanager
def serve(plant: Plant) -> Iterator[HttpInbox]:
    """A REST server as a process of its own, and a way to its inbox."""
    token = make_token()
    with connections.connect(plant.dsn) as connection:
        tokens.create_token(
            connection,
            token_id=token.token_id,
            token_name="bench",
            token_hash=token.token_hash,
            scope=Scope.PRODUCE,
            by="bench",
            valid_for=timedelta(hours=12),
        )
    process = subprocess.Popen(
        [sys.executable, "-m", "disarray", "api", "--port", "0"],
        cwd=plant.folder,
        env={**os.environ, "DISARRAY_DSN": plant.dsn},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        inbox = HttpInbox(url, dataset="press", token=token.text, timeout_seconds=120)
        yield inbox
        inbox.close()
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
