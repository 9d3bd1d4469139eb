"""How long do readers wait while a late file is repaired?

    python -m benchmarks.read_during_repair [--days 150] [--seconds 8] [--turns 3]

A process of its own asks for `value` at random instants and for `series` over random days, hour by hour, one after
the other, each answer folded from readings. While nothing happens, and while late files land one after the other in
front of the whole history; both take turns. p99 of all turns.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.goals import Goal, conclude
from benchmarks.history import build_history, late_file
from benchmarks.plant import dataset_of, open_plant, spark_session
from benchmarks.server import shared_server
from benchmarks.telemetry_files import DAY_S, START_S, description
from disarray.control import connections
from disarray.engine.runner import SparkRunner
from disarray.model.duration import DAY, HOUR
from disarray.queries.metric_values import series, value_at
from disarray.store.lake import Lake

if TYPE_CHECKING:
    from concurrent.futures import Future

    from benchmarks.plant import Plant

SUBJECT = "TOOL07"
Waits = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    waits: dict[str, Waits] = {moment: {"value": [], "series": []} for moment in ("idle", "during repair")}
    with (
        tempfile.TemporaryDirectory(prefix="disarray-bench-") as name,
        shared_server(given.dsn) as server,
        spark_session() as session,
        open_plant(server, Path(name), description(), runner=SparkRunner(session)) as plant,
        ProcessPoolExecutor(1) as readers,
    ):
        late_days = list(range(1, given.days - 1))
        build_history(plant, SUBJECT, days=given.days, late_days=late_days)
        repairs = 0
        for turn in range(-1, given.turns):
            for moment in waits:
                future = readers.submit(
                    ask,
                    plant.dsn,
                    Path(name),
                    plant.lake.root,
                    days=given.days,
                    for_s=given.seconds,
                    seed=turn,
                )
                if moment != "idle":
                    repairs += repair_until_done(plant, future, late_days)
                if turn >= 0:
                    for question, seconds in future.result().items():
                        waits[moment][question] += seconds
                future.result()
    p99 = {
        moment: {question: float(np.quantile(seconds, 0.99)) for question, seconds in asked.items()}
        for moment, asked in waits.items()
    }
    conclude(
        "read_during_repair",
        [
            Goal(
                f"p99 of {question} during repair / idle",
                round(p99["during repair"][question] / p99["idle"][question], 2),
                2.0,
                at_least=False,
            )
            for question in ("value", "series")
        ],
        {
            "repairs": repairs,
            "asked": {
                moment: {each: len(seconds) for each, seconds in asked.items()}
                for moment, asked in waits.items()
            },
            "p50_s": {
                moment: {each: float(np.median(seconds)) for each, seconds in asked.items()}
                for moment, asked in waits.items()
            },
            "p99_s": p99,
        },
    )


def repair_until_done(plant: Plant, reading: Future[Waits], late_days: list[int]) -> int:
    """Let late files land until the reader has had enough; how many did."""
    repaired = 0
    while not reading.done() and late_days:
        plant.ingest([late_file(plant, SUBJECT, late_days.pop(0))])
        repaired += 1
    return repaired


def ask(dsn: str, folder: Path, lake_root: Path, *, days: int, for_s: float, seed: int) -> Waits:
    """Seconds that each answer took."""
    dataset = dataset_of(folder, description())
    [metric] = [each for each in dataset.metrics if each.name == "charge"]
    generator = random.Random(seed)
    first_us, span_us = START_S * 1_000_000, (days - 2) * DAY_S * 1_000_000
    waits: Waits = {"value": [], "series": []}
    with connections.connect(dsn) as connection:
        end = time.perf_counter() + for_s
        while (began := time.perf_counter()) < end:
            at_us = first_us + generator.randrange(span_us)
            value_at(
                connection, Lake(lake_root), dataset=dataset, subject_key=SUBJECT, metric=metric, at_us=at_us
            )
            between = time.perf_counter()
            day_us = at_us // DAY * DAY
            series(
                connection,
                Lake(lake_root),
                dataset=dataset,
                subject_key=SUBJECT,
                metric=metric,
                from_us=day_us,
                to_us=day_us + DAY,
                every_us=HOUR,
            )
            waits["value"].append(between - began)
            waits["series"].append(time.perf_counter() - between)
    return waits


if __name__ == "__main__":
    main()
