"""A plant in the middle of a rebuild, as a program leaves it that is stopped for an upgrade.

    python -m tests.upgrade.half_rebuilt [--readings 2500] [--folder FOLDER]

Run by the program that is to be upgraded, it writes `half_rebuilt_<schema>.tar.xz`, or all of it into a folder. Three
subjects in segments of an hour, more than two blocks of them: of one the rebuild is done, of one it was begun, of one a
large shift waits as well.
"""

from __future__ import annotations

import argparse
import random
import sys
import tarfile
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from disarray import embedded
from disarray.control import blacklist, claims, connections, instances, migrations
from disarray.control.claims import FetchPolicy
from disarray.worker.process.scheduler import Scheduler
from tests.plant import Plant
from tests.upgrade.record import FOLDER, PLANT, _add, _anonymous, _dump

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection

FORMER = """
[[dataset]]
name = "rigs"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 h"
channel = "sensor"
horizon = "10 d"
[dataset.columns.sensor]
type = "string"
[dataset.columns.job]
type = "string"
[dataset.columns.part]
type = "int64"
[dataset.columns.volts]
type = "float64"
[dataset.metrics.energy]
kind = "integral"
input = "volts * 0.1"
max_gap = "3 h"
break_on = ["job"]
[dataset.metrics.energy_of_job]
kind = "integral"
method = "previous"
input = "volts"
max_gap = "3 h"
reset_on = ["job"]
[dataset.metrics.parts]
kind = "increase"
input = "part"
[dataset.metrics.lowest]
kind = "min"
input = "volts"
[dataset.metrics.most_parts]
kind = "max"
input = "part"
reset_on = ["job"]
[dataset.metrics.readings]
kind = "count"
[dataset.rollups.daily]
bucket = "1 day"
[dataset.rollups.daily.aggregates]
mean_volts = { function = "avg", input = "volts" }
"""
# Another length of segments, so other blocks; another input of a metric; a new metric.
IN_FORCE = (
    FORMER.replace('segment = "1 h"', 'segment = "30 min"').replace('"volts * 0.1"', '"volts * 0.2"')
    + """
[dataset.metrics.volts_total]
kind = "sum"
input = "volts"
"""
)
REBUILT, BEGUN, SHIFTED_LATER = SUBJECTS = ("R1", "R2", "R3")
HEADER = "time,sensor,job,part,volts\n"
BEGIN = datetime(2025, 11, 1, tzinfo=UTC)
DAYS = 12
LATE_DAY, REFUSED_DAY = 4, 7
ONE_AT_A_TIME = FetchPolicy(limit=1, max_subjects=1)


def write_files(plant: Plant, *, readings: int) -> None:
    """A file for each day, one that is refused, and one of the first hours that comes beyond the horizon."""
    step = timedelta(days=DAYS) * len(SUBJECTS) / readings
    for place, subject in enumerate(SUBJECTS):
        for day in range(DAYS):
            lines = _lines(
                random.Random(1000 * place + day), BEGIN + timedelta(days=day), timedelta(days=1), step
            )
            plant.write(f"{subject}/{day:02}.csv", HEADER + "".join(lines))
        refused = _lines(
            random.Random(f"{subject} refused"),
            BEGIN + timedelta(days=REFUSED_DAY, minutes=7),
            timedelta(hours=9),
            step,
        )
        plant.write(f"{subject}/refused.csv", HEADER + "".join(refused))
        parked = _lines(
            random.Random(f"{subject} parked"), BEGIN + timedelta(minutes=3), timedelta(hours=6), step
        )
        plant.write(f"{subject}/parked.csv", HEADER + "".join(parked))


def _lines(generator: random.Random, begin: datetime, length: timedelta, step: timedelta) -> Iterator[str]:
    for number in range(length // step):
        at = begin + number * step
        job = f"J{(at - BEGIN) // timedelta(hours=37)}"
        part = "" if generator.random() < 0.1 else str(generator.randrange(500))
        volts = "" if generator.random() < 0.1 else repr(round(generator.uniform(-5, 50), 3))
        yield f"{at.isoformat()},{generator.choice('ab')},{job},{part},{volts}\n"


def decide(plant: Plant, subject: str) -> None:
    """What is beyond the horizon is parked, and a file counts for nothing."""
    folder = plant.inbox / subject
    plant.ingest(folder / "refused.csv", folder / "parked.csv")
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(
            connection, str(folder / "refused.csv"), subject, reason="a loose cable", by="ada"
        )
    plant.drain()


def days_of(plant: Plant, subject: str, *, late: bool) -> list[Path]:
    """The files of days: the late one, or the others."""
    return [plant.inbox / subject / f"{day:02}.csv" for day in range(DAYS) if (day == LATE_DAY) == late]


def leave_half_rebuilt(plant: Plant) -> None:
    """Take everything in under the former definition, put the other in force, and stop in the middle."""
    for subject in SUBJECTS:
        for path in days_of(plant, subject, late=False):
            plant.ingest(path)
        if subject != SHIFTED_LATER:
            plant.ingest(*days_of(plant, subject, late=True))
        decide(plant, subject)
    plant.notify(*days_of(plant, SHIFTED_LATER, late=True))
    assert Scheduler(replace(plant.place, max_shift_rows=0), policy=ONE_AT_A_TIME).process_batch() is not None
    with plant.pool.connection() as connection:
        others = [REBUILT, BEGUN]
        holder = instances.register_instance(connection, "Worker01", subject_patterns=others)
    plant.place = replace(plant.place, holder=holder, subject_patterns=tuple(others))
    plant.redefine(IN_FORCE)
    assert Scheduler(plant.place, policy=ONE_AT_A_TIME).process_batch() is not None
    with plant.pool.connection() as connection:
        [claimed] = claims.fetch_items(connection, holder, ONE_AT_A_TIME)
        assert claimed.subject_key == BEGUN


def numbers(connection: Connection) -> dict[str, list[list[str]]]:
    """Every number that is derived from files, with all of its bits."""
    queries = {
        "segments": "select subject_key, segment_us, readings, duplicates, digest from disarray.segment",
        "metrics": """
            select subject_key, metric, channel, segment_us, piece, points, total_float, total_int, base_float,
                base_int, before_float, before_int, prior_us, prior_float, prior_int, prior_break
            from disarray.segment_metric
            """,
        "rollups": """
            select subject_key, rollup, aggregate, channel, bucket_us, segment_us, points, value_float, value_int
            from disarray.rollup
            """,
        "parked": "select subject_key, segment_us, readings from disarray.fragment where state = 'parked'",
    }
    return {
        name: sorted([repr(value) for value in row] for row in connection.execute(query.encode()))
        for name, query in queries.items()
    }


def record(root: Path, folder: Path, *, readings: int) -> None:
    """Make the plant with this program, and leave database, lake and files in a folder."""
    server = embedded.start(root / "server")
    try:
        with connections.connect(server.dsn) as connection:
            migrations.migrate(connection)
        plant = Plant(folder, server.dsn, description=FORMER)
        write_files(plant, readings=readings)
        leave_half_rebuilt(plant)
        plant.pool.close()
        (folder / "database.sql").write_text(_dump(server.dsn).replace(str(folder), PLANT))
    finally:
        embedded.stop(root / "server")


def main() -> None:
    """Record into a folder, or into an archive beside this file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readings", type=int, default=2_500)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder: Path = (given.folder or Path(name) / "plant").resolve()
        folder.mkdir(parents=True)
        record(Path(name), folder, readings=given.readings)
        if given.folder is not None:
            return
        target = FOLDER / f"half_rebuilt_{migrations.known_migrations()[-1].version:04}.tar.xz"
        with tarfile.open(target, "x:xz", preset=9) as archive:
            _add(archive, "database.sql", (folder / "database.sql").read_text())
            for part in ("inbox", "lake"):
                archive.add(folder / part, arcname=part, filter=_anonymous)
        sys.stdout.write(f"wrote {target}\n")


if __name__ == "__main__":
    main()
