"""What do thousands of small files cost beside the kernels that read them?

    python -m benchmarks.small_files [--files 5000] [--rows-a-file 200] [--subjects 20] [--turns 3]

Files of one subject follow each other in time and arrive one from each subject in turn. From the notification to the
last commit on two cores, warm, beside the same kernels in two bare processes that take all files at once.
The best of the turns counts; processor time of all processes is kept beside it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from benchmarks.goals import Goal, conclude
from benchmarks.ingest import write_files
from benchmarks.plant import BareRunner, dataset_of, open_plant, run_bare, spark_session
from benchmarks.processes import Cost, cost_of
from benchmarks.server import shared_server
from benchmarks.telemetry_files import description
from disarray.engine.runner import SparkRunner
from disarray.store.lake import Lake


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--rows-a-file", type=int, default=200)
    parser.add_argument("--subjects", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    rows = given.files * given.rows_a_file
    taken: dict[str, list[Cost]] = {"disarray": [], "bare kernels": []}
    with (
        tempfile.TemporaryDirectory(prefix="disarray-bench-") as name,
        shared_server(given.dsn) as server,
        spark_session() as session,
    ):
        folder = Path(name)
        paths = write_files(folder, rows=rows, files=given.files, subjects=given.subjects)
        paths.sort(key=lambda path: (path.name, path.parent.name))
        dataset = dataset_of(folder, description())
        bare = BareRunner()
        bare.warm_up()
        with open_plant(server, folder, description(), runner=SparkRunner(session)) as plant:
            plant.ingest(paths[:: max(1, len(paths) // 100)])
        for _ in range(given.turns):
            with open_plant(server, folder, description(), runner=SparkRunner(session)) as plant:
                taken["disarray"].append(cost_of(server, plant.ingest, paths))
                shutil.rmtree(plant.lake.root)
            lake = Lake(folder / "bare")
            taken["bare kernels"].append(cost_of(server, run_bare, bare, dataset, paths, lake))
            shutil.rmtree(lake.root)
        bare.close()
    best = {name: min(cost.clock_s for cost in costs) for name, costs in taken.items()}
    cpu = {name: min(cost.cpu_s for cost in costs) for name, costs in taken.items()}
    conclude(
        "small_files",
        [
            Goal(
                f"{given.files} files of {given.rows_a_file} rows: time / bare kernels",
                round(best["disarray"] / best["bare kernels"], 2),
                1.8,
                at_least=False,
            )
        ],
        {
            "files": given.files,
            "files_per_second": round(given.files / best["disarray"]),
            "seconds": {name: [cost.clock_s for cost in costs] for name, costs in taken.items()},
            "processor_seconds": cpu,
            "processor_time_to_bare_kernels": round(cpu["disarray"] / cpu["bare kernels"], 2),
        },
    )


if __name__ == "__main__":
    main()
