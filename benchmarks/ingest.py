"""What does the pipeline cost beside its own kernels, and how fast is it beside Spark's own ways?

    python -m benchmarks.ingest [--rows 20000000] [--files 200] [--subjects 20] [--turns 3]

CSV files at one reading a second, three metrics and two rollups, on two cores. Four ways, taking turns in one run:

- disarray: notifications, claims, both Spark jobs, one transaction for each subject, all files durable;
- the same kernels in two bare processes: no database, no Spark, nothing remembered;
- Spark's `read.csv → write.parquet` with an explicit schema and the same codec: no metric, no rollup, no dedupe;
- Spark's window functions: the same three metrics by reading and the same two rollups, all written to Parquet.

Spark and the processes are warm: a twentieth of the files goes through each way before the clock starts. The best of
the turns counts; processor time of all processes is kept beside it. Stored bytes
are those of the fragments, beside those that Spark wrote for the same rows.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.goals import Goal, conclude
from benchmarks.plant import (
    CORES,
    BareRunner,
    dataset_of,
    open_plant,
    run_bare,
    spark_session,
    stored_bytes,
)
from benchmarks.processes import Cost, cost_of
from benchmarks.server import shared_server
from benchmarks.spark_ways import SPARK_MEMORY, plain_parquet, window_pipeline
from benchmarks.telemetry_files import START_S, description, seconds, write_file
from disarray.engine.runner import SparkRunner
from disarray.store.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from benchmarks.server import Server

FULL_ROWS = 20_000_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=FULL_ROWS)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--subjects", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="disarray-bench-") as name,
        shared_server(given.dsn) as server,
        spark_session(SPARK_MEMORY) as session,
    ):
        paths = write_files(Path(name), rows=given.rows, files=given.files, subjects=given.subjects)
        measure(server, session, Path(name), paths, rows=given.rows, turns=given.turns)


def write_files(folder: Path, *, rows: int, files: int, subjects: int) -> list[Path]:
    """The files of each subject follow each other in time."""
    rows_a_file, files_a_subject = rows // files, files // subjects
    wanted = [
        (
            folder / "inbox" / f"TOOL{number // files_a_subject:02d}" / f"{number % files_a_subject:04d}.csv",
            START_S + number % files_a_subject * rows_a_file,
            rows_a_file,
        )
        for number in range(files)
    ]
    with ProcessPoolExecutor(CORES) as pool:
        list(pool.map(_write, wanted, chunksize=8))
    return [path for path, _, _ in wanted]


def _write(wanted: tuple[Path, int, int]) -> None:
    path, first_s, rows = wanted
    write_file(path, seconds(first_s, rows))


def measure(
    server: Server, session: SparkSession, folder: Path, paths: Sequence[Path], *, rows: int, turns: int
) -> None:
    bytes_stored: dict[str, int] = {}
    bare = BareRunner()
    bare.warm_up()

    def ours(some: Sequence[Path]) -> Cost:
        with open_plant(server, folder, description(), runner=SparkRunner(session)) as plant:
            taken = cost_of(server, plant.ingest, some)
            bytes_stored["disarray"] = stored_bytes(plant.lake.root)
            shutil.rmtree(plant.lake.root)
        return taken

    def kernels(some: Sequence[Path]) -> Cost:
        lake = Lake(folder / "bare")
        dataset = dataset_of(folder, description())
        taken = cost_of(server, run_bare, bare, dataset, some, lake)
        shutil.rmtree(lake.root)
        return taken

    def plain(some: Sequence[Path]) -> Cost:
        target = folder / "plain"
        taken = cost_of(server, plain_parquet, session, some, target)
        bytes_stored["plain"] = stored_bytes(target)
        shutil.rmtree(target)
        return taken

    def windows(some: Sequence[Path]) -> Cost:
        target = folder / "windows"
        taken = cost_of(server, window_pipeline, session, some, target)
        shutil.rmtree(target)
        return taken

    ways: dict[str, Callable[[Sequence[Path]], Cost]] = {
        "disarray": ours,
        "bare kernels": kernels,
        "plain Spark": plain,
        "Spark windows": windows,
    }
    for way in ways.values():
        way(paths[: max(2, len(paths) // 20)])
    taken: dict[str, list[Cost]] = {name: [] for name in ways}
    for turn in range(turns):
        for name, way in ways.items():
            # The slowest way takes so long that one turn tells enough.
            if turn == 0 or name != "Spark windows":
                taken[name].append(way(paths))
                print(f"{name}: {taken[name][-1]}")
    bare.close()
    best = {name: min(cost.clock_s for cost in costs) for name, costs in taken.items()}
    cpu = {name: min(cost.cpu_s for cost in costs) for name, costs in taken.items()}
    conclude(
        "ingest",
        [
            Goal(
                "time / the same kernels in two bare processes",
                round(best["disarray"] / best["bare kernels"], 2),
                1.35,
                at_least=False,
                applies=rows >= FULL_ROWS,
            ),
            Goal(
                "time / Spark's plain read.csv → write.parquet",
                round(best["disarray"] / best["plain Spark"], 2),
                1.0,
                at_least=False,
            ),
            Goal(
                "times faster than Spark's window functions",
                round(best["Spark windows"] / best["disarray"], 2),
                3.0,
                at_least=True,
            ),
            Goal(
                "stored bytes / plain Parquet of the same rows",
                round(bytes_stored["disarray"] / bytes_stored["plain"], 2),
                1.2,
                at_least=False,
            ),
        ],
        {
            "rows": rows,
            "files": len(paths),
            "rows_per_second": round(rows / best["disarray"]),
            "seconds": {name: [cost.clock_s for cost in costs] for name, costs in taken.items()},
            "processor_seconds": cpu,
            "processor_time_to_bare_kernels": round(cpu["disarray"] / cpu["bare kernels"], 2),
            "bytes": bytes_stored,
        },
    )


if __name__ == "__main__":
    main()
