"""What do readings in a hypertable cost, beside a bare COPY and beside rows that carry their running values?

    python -m benchmarks.timescale [--dsn …] [--rows 5000000] [--history 10000000]

On one server, durable commits: (1) files of eight subjects are ingested; then the very rows that came out are copied
into a second, equal hypertable, by as many connections as there are cores. (2) A subject of ten million rows gets
files that are late by most of its history, one after the other (median of five, Spark kept warm as a running worker
does); then a table that keeps running values in its rows gets the same readings, and one UPDATE with a window function
puts right what stands to the right of the first of them (not what stands to the left).
Without --dsn, the server of scripts/timescale.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.goals import Goal, conclude
from benchmarks.instrument_files import dataset_in, write_file
from benchmarks.server import shared_server
from disarray import config
from disarray.control import connections, files, migrations
from disarray.control.files import Notification
from disarray.kernels.scanning.table_rows import row_schema
from disarray.model.description.readings_table import readings_table
from disarray.store.registering import register
from disarray.worker.process.local import open_workplace
from disarray.worker.process.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.worker.workplace import Workplace

SUBJECTS = 8
LATE_ROWS = 3_600
LATE_FILES = 5
METRICS = """
[dataset.metrics.energy]
kind = "integral"
input = "volts * amps"
max_gap = "1 h"
[dataset.metrics.steps]
kind = "sum"
input = "step"
"""


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", help="a server with TimescaleDB")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--history", type=int, default=10_000_000)
    given = parser.parse_args()
    script = Path(__file__).parents[1] / "scripts" / "timescale"
    dsn = (
        given.dsn
        or subprocess.run([str(script), "start"], check=True, capture_output=True, text=True).stdout.strip()
    )
    with ExitStack() as stack:
        server = stack.enter_context(shared_server(dsn))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        database = stack.enter_context(server.database("timescale"))
        place = open_place(stack, folder, database)
        warm_up(place, folder)
        ingest = ingest_and_copy(place, folder, database, rows=given.rows)
        late = late_and_update(place, folder, database, rows=given.history)
    conclude(
        "timescale",
        [
            Goal(
                f"ingest of {given.rows:,} rows: speed / speed of a bare parallel COPY",
                round(ingest["copy_seconds"] / ingest["ingest_seconds"], 2),
                0.5,
                at_least=True,
            ),
            Goal(
                f"late file into {given.history:,} rows: UPDATE with a window function / repair",
                round(late["update_seconds"] / late["repair_seconds"], 1),
                100,
                at_least=True,
            ),
            Goal(
                "rows written by the repair outside of the late file's segments",
                late["written_outside"],
                0,
                at_least=False,
            ),
        ],
        {"server": server.describe(), "ingest": ingest, "late": late},
    )


def open_place(stack: ExitStack, folder: Path, dsn: str) -> Workplace:
    """A worker as it is in production, with its readings in a hypertable."""
    dataset_in(folder)
    description = folder / "disarray.toml"
    text = description.read_text().replace("[[dataset]]", '[[dataset]]\nstore = "timescale"') + METRICS
    description.write_text(text)
    with connections.connect(dsn) as connection:
        connection.execute("set client_min_messages = error")
        connection.execute("create extension timescaledb")
        migrations.migrate(connection)
    flags: dict[str, str | None] = {"--dsn": dsn, "--state-dir": str(folder / "state")}
    return stack.enter_context(open_workplace(config.load(folder, flags=flags), instance_name="Benchmark"))


def warm_up(place: Workplace, folder: Path) -> None:
    """Spark's workers are started by the first job."""
    path = folder / "inbox" / "warm" / "0.csv"
    write_file(path, rows=2_000)
    take_in(place, [path])


def take_in(place: Workplace, paths: Sequence[Path]) -> float:
    """Seconds from the notification of files to the last commit."""
    with place.pool.connection() as connection:
        files.enqueue_files(
            connection,
            [Notification(str(path), path.parent.name, metadata={"dataset": "cycler"}) for path in paths],
        )
    began = time.perf_counter()
    reports = list(Scheduler(place).drain())
    taken = time.perf_counter() - began
    assert sum(len(report.completed) for report in reports) == len(paths), [r.failed for r in reports]
    return taken


def ingest_and_copy(place: Workplace, folder: Path, dsn: str, *, rows: int) -> dict[str, Any]:
    """Files through the pipeline, then the same rows without it."""
    subjects = [f"S{number}" for number in range(SUBJECTS)]
    paths = [folder / "inbox" / subject / "0.csv" for subject in subjects]
    for path in paths:
        write_file(path, rows=rows // SUBJECTS)
    ingest_seconds = take_in(place, paths)
    table = readings_table(place.datasets["cycler"])
    columns = ", ".join(f'"{name}"' for name in row_schema(table).names)
    staged = []
    with psycopg.connect(dsn) as connection:
        for subject in subjects:
            staged.append(folder / f"{subject}.copy")
            statement = f"copy (select {columns} from telemetry.cycler where subject_key = '{subject}' "
            statement += "order by event_at, ordinal) to stdout (format binary)"
            with staged[-1].open("wb") as file, connection.cursor().copy(statement.encode()) as copy:
                for piece in copy:
                    file.write(piece)
        sizes = connection.execute(
            "select hypertable_size('telemetry.cycler'), count(*) from telemetry.cycler"
        ).fetchone()
    assert sizes is not None
    lake_bytes = sum(file.stat().st_size for file in (folder / "state").rglob("*.parquet"))
    with place.pool.connection() as connection:
        register(connection, replace(place.datasets["cycler"], name="bare"))
    began = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        list(threads.map(lambda path: bare_copy(dsn, columns, path), staged))
    copy_seconds = time.perf_counter() - began
    with psycopg.connect(dsn) as connection:
        counted = connection.execute(
            "select (select count(*) from telemetry.bare), count(*) from telemetry.cycler where subject_key like 'S%'"
        ).fetchone()
    assert counted is not None
    assert counted[0] == counted[1] == rows // SUBJECTS * SUBJECTS, counted
    return {
        "ingest_seconds": round(ingest_seconds, 2),
        "copy_seconds": round(copy_seconds, 2),
        "rows": counted[0],
        "table_bytes_per_row": round(float(sizes[0]) / sizes[1], 1),
        "lake_bytes_per_row": round(lake_bytes / sizes[1], 1),
    }


def bare_copy(dsn: str, columns: str, path: Path) -> None:
    """One subject's rows in one transaction, as the pipeline does it."""
    statement = f"copy telemetry.bare ({columns}) from stdin (format binary)".encode()
    with (
        path.open("rb") as file,
        psycopg.connect(dsn) as connection,
        connection.cursor().copy(statement) as copy,
    ):
        while piece := file.read(1 << 20):
            copy.write(piece)


def late_and_update(place: Workplace, folder: Path, dsn: str, *, rows: int) -> dict[str, Any]:
    """Hours that are missing a tenth of the way in, repaired in both ways."""
    inbox = folder / "inbox" / "LONG"
    holes = [rows // 10 + number * 100_000 for number in range(LATE_FILES)]
    late = [inbox / f"late{number}.csv" for number in range(LATE_FILES)]
    paths = []
    for number, (start, end) in enumerate(
        zip([0, *(hole + LATE_ROWS for hole in holes)], [*holes, rows], strict=True)
    ):
        paths.append(inbox / f"{number}.csv")
        write_file(paths[-1], rows=end - start, first_row=start)
    take_in(place, paths)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            """
            create table public.kept_running as
            select event_at, ordinal, volts, amps, step, energy, steps
            from telemetry.cycler_running where subject_key = 'LONG'
            """
        )
        connection.execute("create unique index on public.kept_running (event_at, ordinal)")
        connection.execute("vacuum analyze public.kept_running")
        connection.execute("vacuum analyze telemetry.cycler")
        [mark] = connection.execute(
            "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        ).fetchone() or [0]
        repairs = []
        for hole, path in zip(holes, late, strict=True):
            write_file(path, rows=LATE_ROWS, first_row=hole)
            place.runner.keep_warm()
            repairs.append(take_in(place, [path]))
        written = connection.execute(
            """
            select count(*) filter (where outside), count(*)
            from (
                select _segment_us not in (
                    select _segment_us from telemetry.cycler as said
                    inner join disarray.reading_source as source on source.source_id = said._source_id
                    where source.source_uri = any(%s)
                ) as outside
                from telemetry.cycler
                where xmin::text::bigint >= %s
            ) as written
            """,
            (list(map(str, late)), mark % 2**32),
        ).fetchone()
        assert written is not None
        update_seconds = update_rows(connection, list(map(str, late)))
        differing = connection.execute(
            """
            select count(*) from public.kept_running as kept
            inner join telemetry.cycler_running as shown
                on shown.subject_key = 'LONG' and shown.event_at = kept.event_at
            where shown.steps <> kept.steps or abs(shown.energy - kept.energy) > 1e-6 * abs(kept.energy)
            """
        ).fetchone()
        assert differing == (0,), differing
    return {
        "repair_seconds": round(statistics.median(repairs), 3),
        "repairs": [round(seconds, 3) for seconds in repairs],
        "update_seconds": round(update_seconds, 2),
        "rows_written": written[1],
        "written_outside": written[0],
    }


def update_rows(connection: psycopg.Connection[Any], late_uris: list[str]) -> float:
    """Put the late readings in, and right all that stands at or after them."""
    connection.execute(
        """
        insert into public.kept_running
        select event_at, -1, volts, amps, step, null, null from telemetry.cycler_running where source_uri = any(%s)
        """,
        (late_uris,),
    )
    began = time.perf_counter()
    connection.execute(
        """
        with bounds as (
            select min(event_at) as begin from public.kept_running where ordinal = -1
        ),
        before as (
            select event_at, volts * amps as watts, energy, steps
            from public.kept_running
            where event_at < (select begin from bounds) order by event_at desc limit 1
        ),
        steps as (
            select
                event_at, ordinal, step,
                ((watts + lag(watts) over (order by event_at)) * 0.5)
                * extract(epoch from event_at - lag(event_at) over (order by event_at))::float8 as area
            from (
                select event_at, ordinal, step, volts * amps as watts
                from public.kept_running where event_at >= (select begin from bounds)
                union all
                select event_at, null, null, watts from before
            ) as readings
        ),
        sums as (
            select
                event_at, ordinal,
                sum(step) over in_time as steps,
                sum(area) over in_time as energy
            from steps
            window in_time as (order by event_at rows unbounded preceding)
        )
        update public.kept_running as kept
        set
            steps = before.steps + sums.steps,
            energy = before.energy + sums.energy
        from sums, before
        where kept.event_at = sums.event_at and kept.ordinal = sums.ordinal
        """
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
