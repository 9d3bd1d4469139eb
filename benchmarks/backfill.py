"""What does a backfill cost beside one plain UPDATE, how long does it lock, and does it keep to its limits?

    python -m benchmarks.backfill [--rows 5000000] [--sized-rows 1000000] [--turns 2] [--seconds 30]

One table of a user with a primary key, in the database of disarray. A column is set from two others: (a) by one UPDATE,
which locks every row until it ends, (b) by `disarray backfill start` with two chunks at once, in a process of its own,
from its start to its verdict, (c) on a fifth of the rows by a loop of UPDATEs with OFFSET and LIMIT. Each on a fresh
table, vacuumed. A writer beside (b) changes one row after the other all the time and notes how long each takes. Then
with `--sized-rows` rows: sizes that adapt beside sizes that are fixed, and a rate of 2,000 rows a second with one and
with two workers, over `--seconds`. Memory is the peak of the process of (b), and of its sessions on the server what is
not shared. For 50 M rows: `--rows 50000000`; what is then told of memory is the point.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.goals import Goal, conclude
from benchmarks.server import settle, shared_server
from disarray.backfill.job_file import parse_spec
from disarray.backfill.serving_jobs import JobServer
from disarray.backfill.starting import start_backfill
from disarray.config import default_config
from disarray.control import backfills, connections, instances, migrations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.backfills import BackfillRecord

TABLE = """
drop table if exists shop_orders;
create table shop_orders (id bigint primary key, gross float8 not null, tax float8 not null, net float8, note text);
insert into shop_orders (id, gross, tax, note)
select n, n * 1.5, n / 7.0, 'order ' || n from generate_series(1, {rows}) as n
"""
JOB: dict[str, Any] = {
    "name": "fill_net",
    "source": {"table": "public.shop_orders", "cursor_column": "id"},
    "update": {"set": {"net": "gross - tax"}},
    "health": {"max_lock_waits": "none"},
}
RATE = 2_000
FIXED_SIZES = (500, 2_000, 8_000, 32_000)
OFFSET_ROWS = 10_000


def main() -> None:
    """Change the same table in every way, and tell how the ways compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--sized-rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=2, help="of sizes that adapt beside fixed ones")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    figures: dict[str, Any] = {"rows": given.rows, "sized_rows": given.sized_rows, "seconds": given.seconds}
    with shared_server(given.dsn) as server, server.database("backfill") as dsn:
        with connections.connect(dsn) as connection:
            migrations.migrate(connection)
        fill(dsn, 10_000)
        run_in_process(dsn, {})  # warm
        fill(dsn, given.rows)
        plain = timed_update(dsn)
        fill(dsn, given.rows)
        ours = run_command(dsn)
        fill(dsn, given.rows // 5)
        offset = offset_loop(dsn, given.rows // 5)
        figures |= {"plain_seconds": plain, "ours": ours, "offset_last_tenth": offset}
        print(json.dumps(figures), flush=True)
        adaptive, fixed = compare_sizes(dsn, given.sized_rows, given.turns)
        figures |= {"adaptive_rows_per_second": adaptive, "fixed_rows_per_second": fixed}
        print(json.dumps({"adaptive": adaptive, "fixed": fixed}), flush=True)
        rates = {workers: held_rate(dsn, workers, given.seconds) for workers in (1, 2)}
        figures |= {"rates": rates}
    conclude(
        "backfill",
        [
            Goal("rows a second / one plain UPDATE", round(plain / ours["seconds"], 3), 0.4, at_least=True),
            Goal("longest chunk in ms", ours["longest_chunk_ms"], 200, at_least=False),
            Goal("last tenth of the chunks / first", ours["last_tenth"], 1.2, at_least=False),
            Goal(
                "last tenth of an OFFSET loop / first",
                offset,
                1.2,
                at_least=True,
                applies=given.rows >= 5_000_000,
            ),
            *(
                Goal(
                    f"rate held with {workers} worker(s), off by %",
                    round(abs(rate / RATE - 1) * 100, 2),
                    5.0,
                    at_least=False,
                )
                for workers, rate in rates.items()
            ),
            Goal(
                "adaptive size / best fixed size",
                round(adaptive / max(fixed.values()), 3),
                0.9,
                at_least=True,
            ),
            Goal("peak MB of any process", ours["peak_mb"], 400, at_least=False),
        ],
        figures,
    )


def fill(dsn: str, rows: int) -> None:
    """A fresh table of so many rows."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in TABLE.format(rows=rows).split(";\n"):
            connection.execute(statement.encode())
        connection.execute("checkpoint")
    settle(dsn)


def timed_update(dsn: str) -> float:
    """One statement for all rows: how many seconds."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        began = time.monotonic()
        connection.execute("update shop_orders set net = gross - tax")
        return round(time.monotonic() - began, 3)


def run_command(dsn: str) -> dict[str, Any]:
    """`disarray backfill start` from its start to its verdict, with somebody who writes beside it."""
    with tempfile.TemporaryDirectory(prefix="disarray-bench-") as name, writing(dsn) as waits:
        file = Path(name) / "job.toml"
        file.write_text(
            'name = "fill_net_by_command"\n[source]\ntable = "public.shop_orders"\ncursor_column = "id"\n'
            '[update]\nset = { net = "gross - tax" }\n[health]\nmax_lock_waits = "none"\n'
        )
        command = [
            sys.executable,
            "-m",
            "disarray",
            "--dsn",
            dsn,
            "backfill",
            "start",
            str(file),
            "--by",
            "ada",
        ]
        began = time.monotonic()
        process = subprocess.Popen([*command, "--json"], cwd=name, stdout=subprocess.PIPE)
        peak = peak_of(process, dsn)
        output = process.communicate()[0]
        seconds = time.monotonic() - began
        assert process.returncode == 0, output
    job = json.loads(output)
    with connections.connect(dsn) as connection:
        chunks = connection.execute(
            "select seconds, rows_cut, ended_at from disarray.backfill_chunk where job_id = %s order by place",
            (job["job_id"],),
        ).fetchall()
        [(work,)] = connection.execute(
            "select extract(epoch from max(chunk.ended_at) - min(job.started_at))::float8 "
            "from disarray.backfill_job as job inner join disarray.backfill_chunk as chunk using (job_id) "
            "where job_id = %s",
            (job["job_id"],),
        ).fetchall()
    costs = [each / rows for each, rows, _ in chunks[:-1]]
    tenth = max(len(costs) // 10, 1)
    durations = sorted(each for each, _, _ in chunks)
    return {
        "seconds": round(seconds, 3),
        "seconds_until_all_chunks": round(work, 3),
        "chunks": len(chunks),
        "longest_chunk_ms": round(durations[-1] * 1000, 1),
        "p99_chunk_ms": round(durations[int(len(durations) * 0.99)] * 1000, 1),
        "median_chunk_ms": round(durations[len(durations) // 2] * 1000, 1),
        "median_chunk_rows": sorted(rows for _, rows, _ in chunks)[len(chunks) // 2],
        # The first chunks are small while sizes grow: what a row costs is compared.
        "last_tenth": round(_mean(costs[-tenth:]) / _mean(costs[:tenth]), 3),
        "longest_wait_of_a_writer_ms": round(max(waits, default=0.0) * 1000, 1),
        "writes_beside": len(waits),
        "peak_mb": round(peak / 1e6),
    }


@contextmanager
def writing(dsn: str) -> Iterator[list[float]]:
    """Somebody who changes one row after the other; how long each change took."""
    waits: list[float] = []
    is_over = threading.Event()

    def write() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            [(rows,)] = connection.execute("select max(id) from shop_orders").fetchall()
            number = 0
            while not is_over.wait(0.01):
                number += 7919
                began = time.monotonic()
                connection.execute(
                    "update shop_orders set note = 'changed' where id = %s", (number % rows + 1,)
                )
                waits.append(time.monotonic() - began)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield waits
    finally:
        is_over.set()
        thread.join()


def peak_of(process: subprocess.Popen[bytes], dsn: str) -> int:
    """The most bytes that a process held, or one of its sessions on this host by itself, until it ends."""
    peak = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        while process.poll() is None:
            sessions = connection.execute(
                "select pid from pg_stat_activity where application_name like 'disarray backfill%'"
            ).fetchall()
            peak = max(
                peak, _status(process.pid, "VmHWM"), *(_status(pid, "RssAnon") for (pid,) in sessions), 0
            )
            time.sleep(0.2)
    return peak


def offset_loop(dsn: str, rows: int) -> float:
    """The loop that everybody writes first: what its last tenth takes beside its first."""
    seconds = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        for offset in range(0, rows, OFFSET_ROWS):
            began = time.monotonic()
            connection.execute(
                "update shop_orders set net = gross - tax where id in "
                "(select id from shop_orders order by id offset %s limit %s)",
                (offset, OFFSET_ROWS),
            )
            seconds.append(time.monotonic() - began)
    tenth = max(len(seconds) // 10, 1)
    return round(_mean(seconds[-tenth:]) / _mean(seconds[:tenth]), 3)


def run_in_process(dsn: str, processing: dict[str, Any]) -> float:
    """A backfill by two threads of this process: rows a second until all chunks are done."""
    job = run_job(dsn, processing)
    assert job.verdict == "verified", job.verdict_details
    with connections.connect(dsn) as connection:
        [(seconds,)] = connection.execute(
            "select extract(epoch from max(ended_at) - min(available_at))::float8 from disarray.backfill_chunk "
            "where job_id = %s",
            (job.job_id,),
        ).fetchall()
    return round(job.rows_done / float(seconds), 1)


def run_job(dsn: str, processing: dict[str, Any]) -> BackfillRecord:
    spec = parse_spec({**JOB, "processing": processing}, shown="job", config=default_config())
    job_id = start_backfill(dsn, spec, reason="measured", by="benchmark")
    with connections.connect(dsn) as connection:
        holder = instances.register_instance(connection, "bench")
        JobServer(dsn=dsn, holder=holder, lease_seconds=300).run_job(job_id, threading.Event(), threads=2)
        [job] = backfills.list_backfills(connection, job_id=job_id)
    return job


def compare_sizes(dsn: str, rows: int, turns: int) -> tuple[float, dict[int, float]]:
    """Rows a second with sizes that adapt, and with each of the fixed sizes; the better of the turns of each."""
    fixed = dict.fromkeys(FIXED_SIZES, 0.0)
    adaptive = 0.0
    for _ in range(turns):
        for size in FIXED_SIZES:
            fill(dsn, rows)
            JOB["source"]["batch_size"] = size
            found = run_in_process(dsn, {"min_batch_size": size, "max_batch_size": size})
            fixed[size] = max(fixed[size], found)
        del JOB["source"]["batch_size"]
        fill(dsn, rows)
        adaptive = max(adaptive, run_in_process(dsn, {}))
    return adaptive, fixed


def held_rate(dsn: str, workers: int, seconds: float) -> float:
    """Rows a second over a while, with a limit, by so many workers of two threads each."""
    fill(dsn, round(RATE * (seconds + 15)))
    spec = parse_spec(
        {**JOB, "processing": {"rate_limit_per_second": RATE, "max_concurrency": 4}},
        shown="job",
        config=default_config(),
    )
    job_id = start_backfill(dsn, spec, reason="measured", by="benchmark")
    stop = threading.Event()
    with connections.connect(dsn) as connection:
        threads = []
        for number in range(workers):
            holder = instances.register_instance(connection, f"bench{number}")
            server = JobServer(dsn=dsn, holder=holder, lease_seconds=300)
            threads.append(
                threading.Thread(
                    target=server.run_job, args=(job_id, stop), kwargs={"threads": 2}, daemon=True
                )
            )
            threads[-1].start()
        time.sleep(3)  # until it goes evenly
        [before] = backfills.list_backfills(connection, job_id=job_id)
        time.sleep(seconds)
        [after] = backfills.list_backfills(connection, job_id=job_id)
        stop.set()
        for thread in threads:
            thread.join()
        backfills.decide_backfill(
            connection, job_id, backfills.BackfillDecision.CANCELLED, reason="measured", by="benchmark"
        )
    return round(
        (after.rows_done - before.rows_done) / (after.listed_at - before.listed_at).total_seconds(), 1
    )


def _status(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
