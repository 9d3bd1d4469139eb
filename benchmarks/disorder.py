"""What does disorder cost? The same readings in order, and 38 % of them late by up to forty minutes.

    python -m benchmarks.disorder [--rows 20000000] [--files 200] [--subjects 20] [--turns 2]

Readings stand in files in the order of arrival, and files are cut from that stream: a late reading lies in a later
file, and belongs to a segment that was committed before. One file of each subject makes a batch, and each batch is
committed before the next is announced, every few seconds. Both orders take turns, warm; the best of the turns counts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.goals import Goal, conclude
from benchmarks.plant import CORES, open_plant, spark_session, timed
from benchmarks.server import shared_server
from benchmarks.telemetry_files import START_S, description, seconds, write_file
from disarray.engine.runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from benchmarks.plant import Plant

LATE_SHARE = 0.38
LONGEST_DELAY_S = 40 * 60
MEAN_DELAY_S = 8 * 60


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--subjects", type=int, default=20)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    taken: dict[str, list[float]] = {"sorted": [], "disorder": []}
    batches = 0
    with (
        tempfile.TemporaryDirectory(prefix="disarray-bench-") as name,
        shared_server(given.dsn) as server,
        spark_session() as session,
    ):
        files_a_subject = given.files // given.subjects
        inboxes = {order: Path(name) / order for order in taken}
        shares: list[float] = []
        with ProcessPoolExecutor(CORES) as pool:
            for order, folder in inboxes.items():
                write = partial(
                    write_subject,
                    folder / "inbox",
                    rows=given.rows // given.subjects,
                    files=files_a_subject,
                    is_late=order == "disorder",
                )
                shares = list(pool.map(write, range(given.subjects)))
        for turn in range(-1, given.turns):
            for order, folder in inboxes.items():
                paths = sorted(
                    (folder / "inbox").rglob("*.csv"), key=lambda path: (path.name, path.parent.name)
                )
                waves = [
                    paths[start : start + given.subjects] for start in range(0, len(paths), given.subjects)
                ]
                with open_plant(server, folder, description(), runner=SparkRunner(session)) as plant:
                    if turn < 0:
                        ingest(plant, waves[:1])
                    else:
                        taken[order].append(timed(ingest, plant, waves))
                        batches = len(waves)
                        print(f"{order}: {taken[order][-1]:.1f} s in {batches} batches")
                    shutil.rmtree(plant.lake.root)
    best = {order: min(times) for order, times in taken.items()}
    conclude(
        "disorder",
        [
            Goal(
                "throughput in disorder / sorted",
                round(best["sorted"] / best["disorder"], 2),
                0.5,
                at_least=True,
            )
        ],
        {
            "rows": given.rows,
            "out_of_order": round(float(np.mean(shares)), 3),
            "seconds_between_commits": {order: round(time / batches, 2) for order, time in best.items()},
            "seconds": taken,
        },
    )


def write_subject(inbox: Path, number: int, *, rows: int, files: int, is_late: bool) -> float:
    """The files of one subject; the share of readings that are older than one before them."""
    instants = seconds(START_S, rows)
    if is_late:
        instants = in_order_of_arrival(instants, seed=number)
    for place, part in enumerate(np.array_split(instants, files)):
        write_file(inbox / f"TOOL{number:02d}" / f"{place:04d}.csv", part)
    return float(np.mean(instants < np.maximum.accumulate(instants)))


def in_order_of_arrival(instants_us: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """Two fifths are held up, most for minutes, some for forty."""
    generator = np.random.default_rng(seed)
    delay_s = np.minimum(1 + generator.exponential(MEAN_DELAY_S, len(instants_us)), LONGEST_DELAY_S)
    delay_s[generator.random(len(instants_us)) >= LATE_SHARE] = 0
    arrived = instants_us + (delay_s * 1e6).astype(np.int64)
    return instants_us[np.argsort(arrived, kind="stable")]


def ingest(plant: Plant, waves: Sequence[Sequence[Path]]) -> None:
    """Announce and commit one batch after the other."""
    for wave in waves:
        plant.ingest(wave)


if __name__ == "__main__":
    main()
