"""A target that is down for an hour: does anybody wait for it, is it told, and does it catch up by itself?

    python -m benchmarks.outage [--minutes 60] [--every 5]

Two workers take in the same files, one every few seconds, in turns: one has two destinations on a server of its own,
the other has none. That server is stopped for so many minutes and then started again. Meanwhile a REST server is asked
for its metrics and `disarray status` is run, and in the end the target is compared with what `queries/` answers.

It prints what the breaker and the lag were over time, and measures

- seconds from an announced file to its commit while the target is down, without destinations / with them;
- commits that the target missed / loads that made up for them;
- seconds from the moment that the server answers until nothing is behind.
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
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import psycopg

from benchmarks.goals import Goal, conclude
from benchmarks.plant import open_plant
from benchmarks.server import STATE, shared_server
from benchmarks.sinks import PLAIN, VARIABLE, announce, loader_of, loading, minutes_file
from disarray import embedded
from disarray.control import destinations, tokens
from disarray.engine.runner import InProcessRunner
from disarray.model.api_token import Scope, make_token
from disarray.model.segments import microseconds_of
from disarray.queries.metric_values import series
from disarray.queries.rollup_buckets import rollup
from disarray.worker.process.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.plant import Plant
    from disarray.sinks.destination_loader import DestinationLoader

TARGET = STATE.parent / "benchmark-target"
DAYS = 30
READINGS = 20
HOUR_US = 3_600_000_000
MOST_CATCH_UP_S = 600.0
DESTINATIONS = {"hourly": 'rollup = "cycler.hourly"', "grid": 'metric = "cycler.charge"\nevery = "1 h"'}


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was told at one moment of the outage."""

    minute: float
    breakers: dict[str, str]
    retry_in_s: dict[str, float]
    status: dict[str, object]
    metrics: dict[str, float]


@dataclass
class Pace:
    """Files at regular moments, each to both plants, and how long each took."""

    with_targets: Plant
    without: Plant
    every_s: float
    generator: random.Random
    files: int = 0

    def run(self, until: float) -> tuple[list[float], list[float]]:
        """Take files in until a moment: seconds from announcement to commit, with destinations and without."""
        seconds: dict[int, list[float]] = {0: [], 1: []}
        while (now := time.monotonic()) < until:
            hour = self.generator.randrange(DAYS * 24) * 60
            minutes = sorted(self.generator.sample(range(hour, hour + 60), READINGS))
            plants = [(0, self.with_targets), (1, self.without)]
            for number, plant in plants if self.files % 2 else reversed(plants):
                path = minutes_file(plant, f"{self.files:06}", minutes)
                announce(plant, path)
                began = time.perf_counter()
                reports = list(plant_schedulers[id(plant)].drain())
                seconds[number].append(time.perf_counter() - began)
                assert [len(each.completed) for each in reports] == [1], reports
            self.files += 1
            time.sleep(max(0.0, min(now + self.every_s, until) - time.monotonic()))
        return seconds[0], seconds[1]


plant_schedulers: dict[int, Scheduler] = {}


def main() -> None:
    """Run it, and tell how it compares with its goals."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=5, help="seconds between two files")
    parser.add_argument(
        "--dsn", help="an empty server instead of the embedded one; the target is always its own"
    )
    given = parser.parse_args()
    runner = InProcessRunner()
    with (
        tempfile.TemporaryDirectory(prefix="disarray-bench-") as name,
        shared_server(given.dsn) as server,
        target_server(),
        open_plant(server, Path(name) / "with", PLAIN, runner=runner) as plant,
        open_plant(server, Path(name) / "without", PLAIN, runner=runner) as twin,
        rest_server(plant) as ask_metrics,
    ):
        loaders = [loader_of(plant, each, what) for each, what in DESTINATIONS.items()]
        scheduler = plant_schedulers[id(plant)] = Scheduler(plant.place)
        plant_schedulers[id(twin)] = Scheduler(twin.place)
        pace = Pace(plant, twin, given.every, random.Random(7))
        with loading(scheduler, loaders):
            usual = pace.run(time.monotonic() + max(30.0, given.minutes * 6))
            await_current(plant)
            embedded.stop(TARGET)
            before, began = commits_and_loads(plant), time.monotonic()
            looks: list[Look] = []
            down: tuple[list[float], list[float]] = ([], [])
            while (now := time.monotonic()) < began + given.minutes * 60:
                found = pace.run(min(now + given.minutes * 60 / 20, began + given.minutes * 60))
                down = (down[0] + found[0], down[1] + found[1])
                looks.append(look(plant, loaders, ask_metrics, since=began))
                print(json.dumps(asdict(looks[-1])), flush=True)
            embedded.start(TARGET)
            returned = time.monotonic()
            await_current(plant)
            caught_up_s = time.monotonic() - returned
            after = commits_and_loads(plant)
        last = look(plant, loaders, ask_metrics, since=began)
        differing = {each: differences(plant, each) for each in DESTINATIONS}
    missed, loads = after[0] - before[0], {each: after[1][each] - before[1][each] for each in DESTINATIONS}
    goals = [
        Goal(
            "seconds from a file to its commit while the target is down: without destinations / with them",
            round(statistics.median(down[1]) / statistics.median(down[0]), 3),
            0.95,
            at_least=True,
        ),
        Goal(
            "loads that made up for all commits, of each destination", max(loads.values()), 1, at_least=False
        ),
        Goal("rows that differ from what queries answer", float(sum(differing.values())), 0, at_least=False),
        Goal("looks that found a closed breaker, no lag or no failure", not_told(looks), 0, at_least=False),
    ]
    conclude(
        "outage",
        goals,
        {
            "minutes": given.minutes,
            "files": pace.files,
            "commits_missed": missed,
            "loads_after": loads,
            "seconds_to_catch_up": round(caught_up_s, 2),
            "seconds_a_file": {
                name: {
                    "with": round(statistics.median(one), 4),
                    "without": round(statistics.median(other), 4),
                }
                for name, (one, other) in {"before": usual, "down": down}.items()
            },
            "looks": [asdict(each) for each in [*looks, last]],
        },
    )


def look(plant: Plant, loaders: Sequence[DestinationLoader], ask_metrics: object, *, since: float) -> Look:
    """What the breakers, `disarray status` and the metrics say now."""
    told = subprocess.run(
        [sys.executable, "-m", "disarray", "--dsn", plant.dsn, "status", "--json"],
        cwd=plant.folder,
        check=True,
        capture_output=True,
        text=True,
    )
    assert callable(ask_metrics)
    return Look(
        minute=round((time.monotonic() - since) / 60, 2),
        breakers={each.destination.name: each.breaker.state.value for each in loaders},
        retry_in_s={each.destination.name: round(each.breaker.retry_in, 1) for each in loaders},
        status={
            each["name"]: {key: each[key] for key in ("state", "lag_commits", "lag_seconds")}
            for each in json.loads(told.stdout)["sinks"]
        },
        metrics=ask_metrics(),
    )


def not_told(looks: Sequence[Look]) -> int:
    """How many looks during the outage did not tell of it."""
    return sum(
        not (
            all(state != "closed" for state in each.breakers.values())
            and all(each.metrics[f"disarray_sink_lag_commits/{name}"] > 0 for name in DESTINATIONS)
            and all(each.metrics[f"disarray_sink_failing/{name}"] == 1 for name in DESTINATIONS)
            and all('"failing"' in json.dumps(each.status[name]) for name in DESTINATIONS)
        )
        for each in looks
    )


@contextmanager
def target_server() -> Iterator[None]:
    """A server that can be stopped without stopping ours."""
    os.environ[VARIABLE] = embedded.start(TARGET).dsn
    with psycopg.connect(os.environ[VARIABLE], autocommit=True) as connection:
        connection.execute("drop schema if exists published cascade")
    try:
        yield
    finally:
        embedded.stop(TARGET)


@contextmanager
def rest_server(plant: Plant) -> Iterator[object]:
    """A REST server as a process of its own; called, it gives the figures of destinations."""
    token = make_token()
    with plant.place.pool.connection() as connection:
        tokens.create_token(
            connection,
            token_id=token.token_id,
            token_name="bench",
            token_hash=token.token_hash,
            scope=Scope.READ,
            by="bench",
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

        def ask() -> dict[str, float]:
            request = Request(f"{url}/metrics", headers={"Authorization": f"Bearer {token.text}"})
            with urlopen(request, timeout=60) as answer:
                lines = answer.read().decode().splitlines()
            return {
                line.split("{")[0] + "/" + line.split('"')[1]: float(line.split()[-1])
                for line in lines
                if line.startswith("disarray_sink_")
            }

        yield ask
    finally:
        process.terminate()
        process.wait()


def await_current(plant: Plant) -> None:
    """Until no destination is behind."""
    end = time.monotonic() + MOST_CATCH_UP_S
    with plant.place.pool.connection() as connection:
        while any(each.state != "current" for each in destinations.list_destinations(connection)):
            assert time.monotonic() < end, "a destination stays behind"
            time.sleep(0.02)


def commits_and_loads(plant: Plant) -> tuple[int, dict[str, int]]:
    """The newest commit of the subject, and how often each destination has loaded it."""
    with plant.place.pool.connection() as connection:
        row = connection.execute("select max(commit_seq) from disarray.subject_commit").fetchone()
        assert row is not None
        return int(row[0]), {
            each.destination: each.loads for each in destinations.list_destinations(connection)
        }


def differences(plant: Plant, name: str) -> int:
    """How many rows the target alone has, or lacks."""
    columns = "bucket_start, readings, volts" if name == "hourly" else "at, value, reading_at"
    with psycopg.connect(os.environ[VARIABLE]) as target, plant.place.pool.connection() as connection:
        target.execute("set timezone = 'UTC'")
        has = {
            tuple(microseconds_of(each) if hasattr(each, "tzinfo") else each for each in row)
            for row in target.execute(f"select {columns} from published.{name}".encode())
        }
        first, last = min(row[0] for row in has), max(row[0] for row in has) + HOUR_US
        if name == "hourly":
            answer = rollup(
                connection,
                dataset=plant.dataset,
                subject_key="CELL01",
                rollup=plant.dataset.rollups[0],
                from_us=0,
                to_us=last + 365 * 24 * HOUR_US,
            )
            wants = {
                (each.start_us, each.numbers["readings"], each.numbers["volts"]) for each in answer.buckets
            }
        else:
            values = series(
                connection,
                plant.lake,
                dataset=plant.dataset,
                subject_key="CELL01",
                metric=plant.dataset.metrics[0],
                from_us=first,
                to_us=last - HOUR_US,
                every_us=HOUR_US,
            )
            wants = {(each.at_us, each.number, each.reading_us) for each in values.values}
    return len(has ^ wants)


if __name__ == "__main__":
    main()
