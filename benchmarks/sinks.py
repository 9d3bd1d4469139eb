"""What follows a commit: how fast, how soon, and does anybody wait for it?

    python -m benchmarks.sinks [--rows 5000000] [--repairs 40] [--commits 10000] [--files 40] [--seconds 8]

One run, Spark on two cores, targets on the server of the plant:

- readings of two subjects published into a table of another database, beside a bare COPY of the same rows in their
  binary form, two sessions at once, into a table with the same key;
- late files, one at a time, into an hourly table and an hourly grid: from their commit until the target shows it, and
  how many rows were written for it;
- loads of one subject into a Delta table with a hundred commits in its log, and with ten thousand;
- small files taken in while the only target is down, beside no target at all;
- a SELECT on a materialized view, while nothing happens and while it is refreshed again and again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psycopg

from benchmarks.goals import Goal, conclude
from benchmarks.instrument_files import DATASET, HEADER, START_S, write_file
from benchmarks.plant import open_plant, spark_session, timed
from benchmarks.server import settle, shared_server
from disarray.control import destinations, subject_commits
from disarray.engine.runner import SparkRunner
from disarray.model.description.destination import DeltaTarget
from disarray.sinks.destination_delta_log import TRIM_EVERY, trim_log
from disarray.sinks.destination_delta_store import open_store
from disarray.sinks.destination_file import load_destinations
from disarray.sinks.destination_loader import LoaderSettings
from disarray.sinks.views import apply_view, load_views
from disarray.store.registering import register_all
from disarray.worker.process.loading import DestinationThread
from disarray.worker.process.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.plant import Plant
    from benchmarks.server import Server
    from disarray.engine.runner import Runner
    from disarray.sinks.destination_loader import DestinationLoader

VARIABLE = "DISARRAY_BENCHMARK_TARGET"
MEASURES = """
[dataset.metrics.charge]
kind = "sum"
input = "amps"
[dataset.rollups.hourly]
bucket = "1 h"
[dataset.rollups.hourly.aggregates]
readings = "count"
volts = { function = "avg", input = "volts" }
"""
PLAIN = DATASET % ("", "int64") + MEASURES
IN_TABLE = DATASET % ('store = "timescale"', "int64") + MEASURES
READINGS = 'readings = "cycler"'
VIEW = """
[[view]]
name = "by_hour"
file = "by_hour.sql"
key = ["subject_key", "hour"]
depends_on = ["cycler"]
at_most_every = "1 min"
"""
QUERY = """select subject_key, date_trunc('hour', event_at) as hour, count(*) as readings, avg(volts) as volts
from telemetry.cycler_running
group by 1, 2
"""
MEASURED_LOADS = 20
POLL_S = 0.005
MOST_S = 120.0


def main() -> None:
    """Measure each part, and tell how they compare with their goals."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repairs", type=int, default=40)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    parser.add_argument("--only", nargs="*", help="parts: publish, repair, delta, outage, view")
    given = parser.parse_args()
    sizes = {
        "publish": given.rows,
        "repair": given.repairs,
        "delta": given.commits,
        "outage": given.files,
        "view": given.seconds,
    }
    goals: list[Goal] = []
    figures: dict[str, object] = {}
    with (
        tempfile.TemporaryDirectory(prefix="disarray-bench-") as name,
        shared_server(given.dsn) as server,
        spark_session() as session,
    ):
        runner = SparkRunner(session)
        runner.keep_warm()
        for part, measure in PARTS.items():
            if given.only and part not in given.only:
                continue
            began = time.perf_counter()
            found, figures[part] = measure(server, Path(name) / part, runner, sizes[part])
            goals += found
            print(f"{part}: {time.perf_counter() - began:.0f} s", figures[part], flush=True)
    conclude("sinks", goals, figures)


def publish(server: Server, folder: Path, runner: Runner, rows: int) -> tuple[list[Goal], object]:
    """Readings into another database, beside a bare parallel COPY."""
    subjects = ("CELL01", "CELL02")
    with target_database(server) as target, open_plant(server, folder, PLAIN, runner=runner) as plant:
        loader = loader_of(plant, "copy", READINGS)
        paths = []
        for subject in subjects:
            for number in range(5):
                paths.append(plant.folder / "inbox" / subject / f"{number}.csv")
                write_file(paths[-1], rows=rows // 10, first_row=number * (rows // 10))
        plant.ingest(paths)
        settle(plant.dsn)
        ours = timed(lambda: list(loader.load_due()))
        settle(target)
        copies = [folder / f"{subject}.copy" for subject in subjects]
        with psycopg.connect(target, autocommit=True) as connection:
            counted = connection.execute("select count(*) from published.copy").fetchone()
            assert counted == (rows // 10 * 10,), counted
            connection.execute("create table published.bare (like published.copy including all)")
            for subject, path in zip(subjects, copies, strict=True):
                query = f"copy (select * from published.copy where subject_key = '{subject}') to stdout (format binary)"
                with connection.cursor().copy(query.encode()) as out, path.open("wb") as file:
                    for part in out:
                        file.write(part)
            connection.execute("checkpoint")
        with ThreadPoolExecutor(len(subjects)) as sessions:
            bare = timed(lambda: list(sessions.map(copy_bare, [target] * len(copies), copies)))
    goal = Goal("readings a second published / bare parallel COPY", round(bare / ours, 3), 0.5, at_least=True)
    return [goal], {"rows": rows, "seconds": {"ours": ours, "bare": bare}}


def copy_bare(dsn: str, path: Path) -> None:
    """A file that is in the form of COPY already."""
    with (
        psycopg.connect(dsn) as connection,
        path.open("rb") as file,
        connection.cursor().copy("copy published.bare from stdin (format binary)") as copy,
    ):
        while part := file.read(1 << 20):
            copy.write(part)


def repair(server: Server, folder: Path, runner: Runner, repairs: int) -> tuple[list[Goal], object]:
    """From the commit of a late file to the target, and what was written for it."""
    days = 60
    with target_database(server) as target, open_plant(server, folder, PLAIN, runner=runner) as plant:
        hourly, grid = (
            loader_of(plant, "hourly", 'rollup = "cycler.hourly"'),
            loader_of(plant, "grid", 'metric = "cycler.charge"\nevery = "1 h"'),
        )
        minutes = list(range(days * 1440))
        # The minutes that come late, all of different hours.
        late = [int(each) for each in np.linspace(days * 0.2, days * 0.8, repairs) * 1440]
        plant.ingest([minutes_file(plant, "all", [each for each in minutes if each not in set(late)])])
        for loader in hourly, grid:
            list(loader.load_due())
        scheduler = Scheduler(plant.place)
        seconds, written, allowed = [], [], []
        with loading(scheduler, [hourly, grid]), psycopg.connect(target, autocommit=True) as connection:
            for number, minute in enumerate(late):
                before = rows_loaded(plant)
                path = minutes_file(plant, f"late{number}", [minute])
                announce(plant, path)
                list(scheduler.drain())
                seconds.append(seconds_until_shown(plant, connection))
                await_loaded(plant)
                after = rows_loaded(plant)
                written.append([after[name] - before[name] for name in ("hourly", "grid")])
                allowed.append([changed_buckets(plant), days * 24 - minute // 60 + 1])
    most = max(
        found / limit
        for one, other in zip(written, allowed, strict=True)
        for found, limit in zip(one, other, strict=True)
    )
    return [
        Goal(
            "late file's commit → visible in an hourly table, p50 s",
            round(statistics.median(seconds), 3),
            1.0,
            at_least=False,
        ),
        Goal(
            "rows written / changed buckets or grid values from the frontier",
            round(most, 3),
            1.0,
            at_least=False,
        ),
    ], {
        "repairs": repairs,
        "seconds": [round(each, 3) for each in seconds],
        "written": written,
        "allowed": allowed,
    }


def minutes_file(plant: Plant, name: str, minutes: Sequence[int]) -> Path:
    """One reading at each of some minutes."""
    path = plant.folder / "inbox" / "CELL01" / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    stamps = np.datetime_as_string(
        (START_S // 3600 * 3600 + np.array(minutes) * 60).astype("datetime64[s]"), timezone="UTC"
    )
    lines = [
        f"{stamp},{3 + n % 7 / 10},{n % 11},25.0,1,0\n"
        for stamp, n in zip(stamps.tolist(), minutes, strict=True)
    ]
    path.write_text(HEADER.decode() + "".join(lines))
    return path


def announce(plant: Plant, path: Path) -> None:
    """As an agent does."""
    from disarray.control import files
    from disarray.control.files import Notification
    from disarray.model.uris import file_uri

    given = Notification(file_uri(str(path)), path.parent.name, metadata={"dataset": plant.dataset.name})
    with plant.place.pool.connection() as connection:
        files.enqueue_files(connection, [given])


def newest_commit(plant: Plant) -> subject_commits.CommitNotice:
    """The last commit of the subject."""
    with plant.place.pool.connection() as connection:
        return subject_commits.list_commits(
            connection, "CELL01", plant.dataset.name, after_seq=0, limit=1_000
        )[-1]


def seconds_until_shown(plant: Plant, target: psycopg.Connection[tuple[object, ...]]) -> float:
    """From the moment of the newest commit until the hourly table has a row of it."""
    newest = newest_commit(plant)
    with plant.connect() as connection:
        found = connection.execute(
            "select extract(epoch from committed_at)::float8 from disarray.subject_commit where commit_seq = %s",
            (newest.commit_seq,),
        ).fetchone()
    assert found is not None
    end = time.monotonic() + MOST_S
    while target.execute(
        "select exists (select from published.hourly where commit_seq = %s)", (newest.commit_seq,)
    ).fetchone() != (True,):
        assert time.monotonic() < end, "the target does not show the commit"
        time.sleep(POLL_S)
    return time.time() - float(found[0])


def await_loaded(plant: Plant) -> None:
    """Until no destination is behind."""
    end = time.monotonic() + MOST_S
    with plant.place.pool.connection() as connection:
        while any(each.lag_commits for each in destinations.list_destinations(connection)):
            assert time.monotonic() < end, "a destination stays behind"
            time.sleep(POLL_S)


def rows_loaded(plant: Plant) -> dict[str, int]:
    """Rows that each destination has written so far."""
    with plant.place.pool.connection() as connection:
        return {each.destination: each.rows_loaded for each in destinations.list_destinations(connection)}


def changed_buckets(plant: Plant) -> int:
    """Buckets that the last commit names."""
    named = newest_commit(plant).changed_buckets
    assert named is not None
    return len(named["hourly"].buckets)


def delta(server: Server, folder: Path, runner: Runner, commits: int) -> tuple[list[Goal], object]:
    """Loads into a Delta table with few and with many commits in its log."""
    medians = {}
    with open_plant(server, folder, PLAIN, runner=runner) as plant:
        loader = loader_of(plant, "lake", 'rollup = "cycler.hourly"', where=f'delta = "{folder / "delta"}"')
        plant.ingest([minutes_file(plant, "all", range(0, 20_000, 2))])
        list(loader.load_due())
        number = 1
        for size in (100, commits):
            fill_log(folder / "delta", size)
            seconds = []
            for _ in range(MEASURED_LOADS):
                plant.ingest([minutes_file(plant, f"late{number}", [number * 60 + 1])])
                seconds.append(timed(lambda: list(loader.load_due())))
                number += 1
            medians[size] = statistics.median(seconds)
    ratio = medians[commits] / medians[100]
    goal = Goal(
        f"Delta load with {commits:,} commits in the log / with 100", round(ratio, 3), 1.5, at_least=False
    )
    return [goal], {"median_s": medians}


def fill_log(path: Path, versions: int) -> None:
    """Commits as loads make them, of another subject, until the table has that many."""
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    table = DeltaTable(str(path))
    rows = table.to_pyarrow_table().slice(0, 20)
    other = rows.set_column(
        rows.column_names.index("subject_key"), "subject_key", [["OTHER"] * rows.num_rows]
    )
    predicate = "dataset = 'cycler' AND subject_key = 'OTHER' AND (month >= '2026-09')"
    for version in range(table.version(), versions):
        if version % TRIM_EVERY == 0:
            trim_log(open_store(DeltaTarget(str(path))))
        write_deltalake(
            table,
            other,
            mode="overwrite",
            predicate=predicate,
            commit_properties=CommitProperties(
                app_transactions=[Transaction("disarray/lake/cycler/OTHER", version)]
            ),
        )


def outage(server: Server, folder: Path, runner: Runner, files: int) -> tuple[list[Goal], object]:
    """Files taken in while the target is down, and without one."""
    seconds: dict[str, list[float]] = {"without": [], "down": []}
    with open_plant(server, folder, PLAIN, runner=runner) as plant:
        scheduler = Scheduler(plant.place)
        os.environ[VARIABLE] = "postgresql://nobody@127.0.0.1:1/nowhere"
        down = loader_of(plant, "down", READINGS)
        for turn in range(-1, 6):
            for moment in seconds if turn % 2 else reversed(seconds):
                paths = []
                for number in range(files):
                    subject = f"{moment.upper()}{turn}N{number % 8}"
                    paths.append(plant.folder / "inbox" / subject / f"{number}.csv")
                    write_file(paths[-1], rows=2_000, first_row=number * 2_000)
                for path in paths:
                    announce(plant, path)
                with loading(scheduler, [down] if moment == "down" else []):
                    taken = timed(lambda: list(scheduler.drain()))
                if turn >= 0:
                    seconds[moment].append(taken)
        with plant.place.pool.connection() as connection:
            [state] = destinations.list_destinations(connection)
        assert state.state == "failing", state
    ratio = statistics.median(seconds["without"]) / statistics.median(seconds["down"])
    goal = Goal(
        "files a second while the target is down / without a target", round(ratio, 3), 0.95, at_least=True
    )
    return [goal], {"files": files, "seconds": seconds}


def view(server: Server, folder: Path, runner: Runner, for_s: float) -> tuple[list[Goal], object]:
    """A SELECT on a view, while nothing happens and while it is refreshed."""
    waits: dict[str, list[float]] = {"idle": [], "refreshing": []}
    with open_plant(server, folder, IN_TABLE, runner=runner) as plant, ProcessPoolExecutor(1) as readers:
        with plant.connect() as connection:
            register_all(connection, [plant.dataset])  # with the table of its readings
        paths = [plant.folder / "inbox" / f"CELL{number:02d}" / "all.csv" for number in range(4)]
        for path in paths:
            write_file(path, rows=100_000)
        plant.ingest(paths)
        (folder / "by_hour.sql").write_text(QUERY)
        (folder / "disarray.toml").write_text(IN_TABLE + VIEW)
        refreshes = 0
        with plant.connect() as connection:
            for each in load_views(folder / "disarray.toml"):
                apply_view(connection, each, by="benchmark")
            settle(plant.dsn)
            for turn in range(-1, 3):
                for moment in waits:
                    asking = readers.submit(ask_view, plant.dsn, for_s if turn >= 0 else 1.0)
                    while moment != "idle" and not asking.done():
                        connection.execute("refresh materialized view concurrently telemetry.by_hour")
                        refreshes += 1
                    if turn >= 0:
                        waits[moment] += asking.result()
                    asking.result()
    p99 = {moment: float(np.quantile(seconds, 0.99)) for moment, seconds in waits.items()}
    goal = Goal(
        "p99 of SELECT on a view during refresh / idle",
        round(p99["refreshing"] / p99["idle"], 2),
        1.5,
        at_least=False,
    )
    return [goal], {
        "refreshes": refreshes,
        "asked": {each: len(found) for each, found in waits.items()},
        "p99_s": p99,
    }


def ask_view(dsn: str, for_s: float) -> list[float]:
    """Seconds that each answer took: a day of one subject, as a chart asks for it."""
    generator = np.random.default_rng(7)
    waits = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        end = time.perf_counter() + for_s
        while (began := time.perf_counter()) < end:
            subject = f"CELL{generator.integers(4):02d}"
            connection.execute(
                "select * from telemetry.by_hour where subject_key = %s order by hour", (subject,)
            ).fetchall()
            waits.append(time.perf_counter() - began)
    return waits


@contextmanager
def target_database(server: Server) -> Iterator[str]:
    """Another database, and where it is, for `loader_of`."""
    with server.database("target") as dsn:
        os.environ[VARIABLE] = dsn
        yield dsn


def loader_of(plant: Plant, name: str, what: str, *, where: str = "") -> DestinationLoader:
    """A loader of the plant's worker into a table of the target, or somewhere else."""
    # In a file: Spark's tasks have the environment of before.
    (plant.folder / f"{name}.url").write_text(os.environ.get(VARIABLE, ""))
    target = (
        where
        or f'url = {{ file = "{name}.url" }}\ntable = "published.{name}"\nload = "upsert"\ncreate = true'
    )
    file = plant.folder / f"{name}.toml"
    file.write_text(f'[[destination]]\nname = "{name}"\n{what}\n{target}\n')
    place = replace(
        plant.place,
        destinations=load_destinations(file, plant.place.datasets),
        loader_settings=LoaderSettings(),
    )
    [loader] = place.loaders()
    loader.register()
    return loader


@contextmanager
def loading(scheduler: Scheduler, loaders: Sequence[DestinationLoader]) -> Iterator[None]:
    """Destinations loaded in threads of their own, as in a worker."""
    stop = threading.Event()
    followers = [DestinationThread(loader, scheduler.breaker) for loader in loaders]
    threads = [threading.Thread(target=each.run, args=(stop,)) for each in followers]
    scheduler.followers.extend(each.wake for each in followers)
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        scheduler.followers.clear()
        for each in followers:
            each.wake()
        for thread in threads:
            thread.join()


PARTS = {"publish": publish, "repair": repair, "delta": delta, "outage": outage, "view": view}


if __name__ == "__main__":
    main()
