"""How fast does a table of another database come in, beside fetching it bare and beside dlt?

    python -m benchmarks.table_source [--rows 5000000] [--turns 1]

One table of twenty tools on PostgreSQL. From its first row to the last commit: an initial load by chunks of 200,000
rows on tasks of Spark, deliveries brought to disk, read and scanned with Spark on two cores. The same again with
extracts in the order of a settled watermark, one after the other (`initial_load = "never"`). Beside it (a) a bare
ADBC fetch of the whole table, written batch by batch with `pyarrow.parquet`, and (b) dlt with its pyarrow backend into
Parquet files.
Neither of them knows what it has taken, finds a row that commits late, or makes a number of it. Memory is the peak of
the process that drives, and of the greatest Python process of Spark. Medians of the turns; Spark is warm.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import adbc_driver_postgresql.dbapi
import psycopg
import pyarrow.parquet as pq

from benchmarks.channels import peak_bytes
from benchmarks.goals import Goal, conclude
from benchmarks.plant import CORES, Plant, open_plant, spark_session, timed
from benchmarks.server import settle, shared_server
from disarray.engine.runner import SparkRunner
from disarray.formats.loader import load_sources
from disarray.sources.landing import Landing
from disarray.worker.process.scheduler import Scheduler

DESCRIPTION = """
[[dataset]]
name = "historian"
roots = ["landing/historian"]
files = ["**/*.parquet"]
format = "parquet"
subject = { delivery = "folders" }
event_time = { from = "at", layouts = ["iso"] }
zone = "UTC"
segment = "1 d"
key = ["id"]
[dataset.columns]
id = "int64"
power_w = "float64"
[dataset.metrics.total]
kind = "sum"
input = "power_w"

[[source]]
name = "historian"
kind = "table"
url = { file = "URL_FILE" }
table = "public.readings"
key = ["id"]
cursor = "updated_at"
watermark = "timestamp"
subject = "tool"
limit = 200000
initial_load = "INITIAL_LOAD"
"""
TABLE = """
create table public.readings (
    id bigint primary key, tool text not null, at timestamptz not null, power_w float8, updated_at timestamptz not null
);
insert into public.readings
select
    n,
    'TOOL' || lpad((n %% 20)::text, 2, '0'),
    '2026-01-01T00:00:00Z'::timestamptz + n / 20 * interval '1 s',
    round((random() * 100)::numeric, 3)::float8,
    '2026-01-01T00:00:05Z'::timestamptz + n / 20 * interval '1 s'
from generate_series(1, %s) as n;
create index on public.readings (updated_at, id);
"""


def main() -> None:
    """Take the same table in in every way, and tell how the ways compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    seconds: dict[str, list[float]] = {"bare": [], "dlt": [], "ours": [], "in_order": []}
    phases: list[dict[str, float]] = []
    peaks: list[int] = []
    with (
        tempfile.TemporaryDirectory(prefix="disarray-bench-") as name,
        shared_server(given.dsn) as server,
        spark_session() as session,
        server.database("warm") as warm_dsn,
        server.database("historian") as dsn,
    ):
        for each, rows in ((warm_dsn, 10_000), (dsn, given.rows)):
            fill(each, rows)
            settle(each)
        for number in range(given.turns + 1):
            folder = Path(name) / str(number)
            # The first turn is a small one, and counts for nothing.
            source, rows = (warm_dsn, 10_000) if number == 0 else (dsn, given.rows)
            url = url_of(source)
            secret = Path(name) / "url"  # a file: the processes of Spark have the environment of their start
            secret.write_text(url)
            taken = {}
            for way, load in (("ours", "always"), ("in_order", "never")):
                described = DESCRIPTION.replace("URL_FILE", str(secret)).replace("INITIAL_LOAD", load)
                with open_plant(server, folder / way, described, runner=SparkRunner(session)) as plain:
                    plant = with_source(plain)
                    Path("/proc/self/clear_refs").write_text("5")
                    spent: dict[str, float] = {}
                    taken[way] = timed(take_in, plant, rows, spent)
                    peaks += [peak_bytes(), *plant.place.runner.run(peak_of_task, range(CORES))]
                if number:
                    phases.append({"way": way, **spent})  # type: ignore[dict-item]
            taken["bare"] = timed(fetch_bare, url, folder / "bare.parquet")
            taken["dlt"] = timed(run_dlt, url, folder / "dlt")
            shutil.rmtree(folder)
            if number:
                for way, found in taken.items():
                    seconds[way].append(found)
                print(taken, flush=True)

    def ratio(way: str) -> float:
        return round(
            statistics.median(other / own for other, own in zip(seconds[way], seconds["ours"], strict=True)),
            3,
        )

    conclude(
        "table_source",
        [
            Goal("rows a second taken in / bare fetch and write", ratio("bare"), 0.5, at_least=True),
            Goal("rows a second taken in / dlt", ratio("dlt"), 2.0, at_least=True),
            Goal("peak MB of any process", round(max(peaks) / 1e6), 500, at_least=False),
        ],
        {
            "rows": given.rows,
            "seconds": seconds,
            "phases": phases,
            "rows_per_second": per_second(given.rows, seconds),
        },
    )


def fill(dsn: str, rows: int) -> None:
    """The table of a historian."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in TABLE.split(";\n"):
            if statement.strip():
                connection.execute(statement.replace("%s", str(rows)).replace("%%", "%").encode())


def per_second(rows: int, seconds: dict[str, list[float]]) -> dict[str, list[int]]:
    """Rates instead of times."""
    return {way: [round(rows / each) for each in found] for way, found in seconds.items()}


def url_of(dsn: str) -> str:
    """The same address as a url."""
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    host, port = quote(str(parts["host"]), safe=""), parts.get("port", 5432)
    return f"postgresql://{parts['user']}@/{parts['dbname']}?host={host}&port={port}"


def with_source(plant: Plant) -> Plant:
    """The plant with its landing folder and its table source."""
    place = plant.place
    sources = load_sources(plant.folder / "disarray.toml", place.datasets)
    return replace(plant, place=replace(place, landing=Landing(plant.folder / "landing"), sources=sources))


def take_in(plant: Plant, rows: int, spent: dict[str, float]) -> None:
    """Pull and load all there is and take it in; how long either took."""
    began = time.monotonic()
    puller, loader = plant.place.puller, plant.place.initial_loader(spares_a_core=False)
    assert puller is not None
    assert loader is not None
    [source] = puller.sources
    taken = sum(batch.counts.taken for batch in puller.pull(source, is_asked_for=True))
    while (found := loader.load_round(source)) is not None and not found.is_done:
        taken += found.rows
    assert taken == rows
    spent["delivered"] = round(time.monotonic() - began, 2)
    failed = [text for report in Scheduler(plant.place).drain() for text in report.failed.values()]
    assert not failed, failed[:3]
    spent["taken_in"] = round(time.monotonic() - began - spent["delivered"], 2)


def peak_of_task(_: int) -> int:
    """The peak of the Python process that runs a task."""
    return peak_bytes()


def fetch_bare(url: str, path: Path) -> None:
    """Every row once, into one Parquet file."""
    with (
        adbc_driver_postgresql.dbapi.connect(url) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("select * from public.readings order by updated_at, id")
        reader = cursor.fetch_record_batch()
        with pq.ParquetWriter(path, reader.schema, compression="zstd", compression_level=1) as writer:
            for batch in reader:
                writer.write_batch(batch)


def run_dlt(url: str, folder: Path) -> None:
    """The same table by dlt."""
    import dlt
    from dlt.sources.sql_database import sql_table

    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(bucket_url=folder.as_uri()),
        dataset_name="historian",
        pipelines_dir=str(folder / "pipelines"),
    )
    rows = sql_table(
        credentials=url.replace("postgresql://", "postgresql+psycopg://"),
        schema="public",
        table="readings",
        backend="pyarrow",
        chunk_size=200_000,
    )
    pipeline.run(rows, loader_file_format="parquet")


if __name__ == "__main__":
    main()
