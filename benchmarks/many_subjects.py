"""Do late files, answers and `status` cost the same however many subjects there are?

    python -m benchmarks.many_subjects [--subjects 100 10000] [--late 30] [--asked 60]

Two plants in one run, with a hundred times as many subjects in the second. Each subject has one small file: four days
of a reading every six hours, of which the first day lacks one. There is one metric, and a daily rollup; segments are
days. Kernels run in this process, so that what a Spark job takes hides nothing. Both plants take turns:

- late files land, each the reading that one subject lacks, so that every segment of it changes: from the announcement
  to the commit, and the commit alone. The rest is what announcing, claiming, reading, planning and scanning take;
- the newest value of a subject is asked for, a value in the middle of its readings, and a page of 20 subjects;
- every question of `disarray status` is asked.

Medians after warm-ups. `status` counts files and subjects, and lists none of them: it is told as it is, and held to a
tenth of what would be linear. `audit` reads all there is, and may take as many times longer as there are subjects.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.goals import Goal, conclude
from benchmarks.plant import CORES, dataset_of, open_plant, timed
from benchmarks.server import settle, shared_server
from disarray.control import connections, figures, instances, moving_files, status, verification_runs
from disarray.control.timings import NO_TIMING, TIMINGS
from disarray.engine.runner import InProcessRunner
from disarray.queries.values import query_value
from disarray.queries.values_of_subjects import query_values
from disarray.store.audit.audit import AuditSettings, Outcome, audit
from disarray.store.lake import Lake
from disarray.worker.process.scheduler import Scheduler
from disarray.worker.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.plant import Plant
    from disarray.control.connections import Connection

START = datetime(2025, 1, 1, tzinfo=UTC)
HOURS = tuple(range(0, 96, 6))
MISSING_HOUR = 6
VALUE = 0.5
PAGE = 20
WARM_UPS = 5
DESCRIPTION = """
[[dataset]]
name = "press"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 d"
key = []
[dataset.columns.value]
type = "float64"
[dataset.metrics.total]
kind = "sum"
input = "value"
[dataset.rollups.daily]
bucket = "1 day"
[dataset.rollups.daily.aggregates]
readings = "count"
"""
# Every question that `disarray status` asks of the database.
STATUS: Mapping[str, Callable[[Connection], object]] = {
    "queue and files": status.queue_status,
    "what waits": status.list_waiting,
    "files that move": moving_files.count_moving_files,
    "files that nothing takes": lambda connection: moving_files.list_unmatched_files(connection, limit=10),
    "verification": verification_runs.verification_state,
    "last day": lambda connection: figures.sum_figures(
        connection, since=datetime.now(UTC) - timedelta(days=1)
    ),
    "how late": lambda connection: figures.lateness_histogram(
        connection, since=datetime.now(UTC) - timedelta(days=1)
    ),
}


@dataclass(frozen=True)
class Place:
    """A plant with so many subjects, and the seconds of what was done there, by what it was."""

    plant: Plant
    subjects: int
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, seconds: float) -> None:
        self.seconds.setdefault(name, []).append(seconds)

    def median(self, name: str) -> float:
        """Of all but the first ones."""
        taken = self.seconds[name]
        return statistics.median(taken[WARM_UPS:] or taken)

    def any_subject(self, number: int) -> str:
        """Another one each time, in the same places of both plants."""
        return key_of(int(random.Random(number).random() * self.subjects))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subjects", type=int, nargs=2, default=(100, 10_000))
    parser.add_argument("--late", type=int, default=30)
    parser.add_argument("--asked", type=int, default=60)
    parser.add_argument("--folder", type=Path, help="where files and lake are written")
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    if given.late + WARM_UPS > min(given.subjects):
        parser.error("each late file needs a subject of its own")
    runner = InProcessRunner()
    with shared_server(given.dsn) as server, ExitStack() as stack:
        places = []
        for subjects in given.subjects:
            home = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="disarray-bench-", dir=given.folder))
            )
            plant = stack.enter_context(open_plant(server, home, DESCRIPTION, runner=runner))
            place = Place(plant, subjects)
            place.note("taking in", timed(take_in, place))
            print(f"{subjects:,} subjects: taken in in {place.median('taking in'):.0f} s", flush=True)
            places.append(place)
        for number in range(given.late + WARM_UPS):
            for place in places:
                add_late_file(place, key_of(number * place.subjects // (given.late + WARM_UPS)))
        for number in range(given.asked + WARM_UPS):
            for place in places:
                ask(place, number)
        for place in places:
            place.note("audit", timed(audit_all, place.plant))
    small, large = places
    growth = large.subjects / small.subjects
    conclude("many_subjects", goals(small, large), told(small, large) | {"growth": growth})


def goals(small: Place, large: Place) -> list[Goal]:
    """What may not grow at all, and what may with what exists."""
    growth = large.subjects / small.subjects
    sizes = f"{large.subjects:,} subjects / {small.subjects:,}"
    flat = {
        "late file": "a late file to its commit",
        "commit": "its commit alone",
        "newest value": "the newest value of a subject",
        "value in between": "a value amid the readings of a subject",
        "page of values": f"the newest values of {PAGE} subjects",
    }
    return [
        *(
            Goal(
                f"{words}, {sizes}",
                round(large.median(name) / small.median(name), 2),
                1.5,
                at_least=False,
            )
            for name, words in flat.items()
        ),
        Goal(
            f"`status`, {sizes} / a tenth of what would be linear",
            round(large.median("status") / small.median("status") / (growth / 10), 2),
            1.0,
            at_least=False,
            applies=growth >= 100,
        ),
        Goal(
            f"`audit`, {sizes} / what is linear",
            round(large.median("audit") / small.median("audit") / growth, 2),
            1.1,
            at_least=False,
        ),
    ]


def told(small: Place, large: Place) -> dict[str, Any]:
    """Milliseconds of everything, and the ratio."""
    return {
        "subjects": [small.subjects, large.subjects],
        "milliseconds": {
            name: [round(1000 * place.median(name), 2) for place in (small, large)] for name in small.seconds
        },
        "ratios": {name: round(large.median(name) / small.median(name), 2) for name in small.seconds},
    }


def take_in(place: Place) -> None:
    """A small file of each subject, by a worker on each core: a commit of its own takes longer than its readings."""
    plant = place.plant
    hours = [hour for hour in HOURS if hour != MISSING_HOUR]
    paths = [write(plant, key_of(number), "first", hours) for number in range(place.subjects)]
    plant.announce(paths)
    with ProcessPoolExecutor(CORES, mp_context=get_context("forkserver")) as workers:
        given = [(plant.folder, plant.lake.root, plant.dsn, f"Bench{number}") for number in range(CORES)]
        assert sum(workers.map(work_off, *zip(*given, strict=True))) == len(paths)
    settle(plant.dsn)


def work_off(folder: Path, lake: Path, dsn: str, name: str) -> int:
    """Do all there is to do, as one worker of several; how many files it took in."""
    dataset = dataset_of(folder, DESCRIPTION)
    with connections.open_pool(dsn) as pool:
        with pool.connection() as connection:
            holder = instances.register_instance(connection, name)
        place = Workplace(pool, InProcessRunner(), Lake(lake), {dataset.name: dataset}, holder)
        return sum(len(report.completed) for report in Scheduler(place).drain())


def add_late_file(place: Place, subject: str) -> None:
    """The one reading that a subject lacks, from the announcement to the commit."""
    path = write(place.plant, subject, "late", [MISSING_HOUR])
    before = commit_seconds()
    total = timed(place.plant.ingest, [path])
    commit = commit_seconds() - before
    place.note("late file", total)
    place.note("commit", commit)
    place.note("all but the commit", total - commit)


def ask(place: Place, number: int) -> None:
    """Every question once."""
    plant, datasets = place.plant, {place.plant.dataset.name: place.plant.dataset}
    subject = place.any_subject(number)
    middle_us = int((START + timedelta(hours=60)).timestamp() * 1_000_000)
    with plant.connect() as connection:
        for name, at_us in (("newest value", None), ("value in between", middle_us)):

            def value(at_us: int | None = at_us) -> None:
                answer = query_value(
                    connection, plant.lake, datasets, subject_key=subject, metric="total", at_us=at_us
                ).document
                [found] = answer.values
                assert found.value is not None
                assert found.value >= VALUE
                assert found.final

            place.note(name, timed(value))
        place.note(
            "page of values",
            timed(query_values, connection, plant.lake, datasets, metric="total", limit=PAGE),
        )
        parts = {f"status: {name}": timed(question, connection) for name, question in STATUS.items()}
        for name, seconds in parts.items():
            place.note(name, seconds)
        place.note("status", sum(parts.values()))


def audit_all(plant: Plant) -> None:
    """Every rule that needs no deep look."""
    with plant.connect() as connection:
        connection.execute("set statement_timeout = 0")
        verdicts = audit(connection, plant.lake, AuditSettings(datasets=[plant.dataset]))
    broken = [each for each in verdicts if each.outcome is Outcome.BROKEN]
    assert not broken, broken[:3]


def write(plant: Plant, subject: str, name: str, hours: Sequence[int]) -> Path:
    """A file with a reading at each of these hours."""
    path = plant.folder / "inbox" / subject / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{(START + timedelta(hours=hour)).isoformat()},{VALUE}\n" for hour in hours)
    path.write_text("time,value\n" + "".join(lines))
    return path


def key_of(number: int) -> str:
    return f"PRESS{number:05d}"


def commit_seconds() -> float:
    """What all commits of this process took so far."""
    return sum((each.seconds for each in TIMINGS.of("commit").values()), NO_TIMING.seconds)


if __name__ == "__main__":
    main()
