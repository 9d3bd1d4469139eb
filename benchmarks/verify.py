"""How long does `verify` take beside taking the same files in, does it grow with the readings alone, what does it find?

    python -m benchmarks.verify [--rows 2000000 20000000] [--subjects 4]

Two plants, one ten times the size of the other, with files of 100,000 readings, three metrics and two rollups: each is
taken in and verified with Spark on two cores, one after the other in one run. Spark is warm: a few files were taken in
and verified on each plant before the clock starts. Memory is the peak of the driver's own process while it verifies;
tasks and the database have theirs. Then one bit is changed in each kind of stored number, and in a file of the lake,
and the plant is verified again.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString

from benchmarks.channels import peak_bytes
from benchmarks.goals import Goal, conclude
from benchmarks.ingest import write_files
from benchmarks.plant import open_plant, spark_session
from benchmarks.server import shared_server
from benchmarks.telemetry_files import description
from disarray.engine.runner import SparkRunner
from disarray.engine.verification.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.plant import Plant
    from benchmarks.server import Server
    from disarray.control.connections import Connection
    from disarray.engine.runner import Runner
    from disarray.engine.verification.verification_report import VerificationReport

ROWS = (2_000_000, 20_000_000)
FILE_ROWS = 100_000
WARM_UP_FILES = 4
# Each kind of number in a summary, by metrics that have it; the segment in which it is changed is one of its own.
SUMMARY_NUMBERS: dict[str, LiteralString] = {
    **dict.fromkeys(
        ("total_float", "first_float", "last_float", "base_float", "before_float", "prior_float"), "energy"
    ),
    **dict.fromkeys(("first_us", "last_us", "prior_us", "readings", "points"), "energy"),
    **dict.fromkeys(("total_int", "first_int", "last_int", "base_int", "before_int", "prior_int"), "in_spec"),
}
ROLLUP_NUMBERS = {"points": "points", "values_float": "value_float", "bucket_ends_us": "bucket_end_us"}


def main() -> None:
    """Take in, verify, change bits, verify again, and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs=2, default=ROWS)
    parser.add_argument("--subjects", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where files and lake are written")
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    with shared_server(given.dsn) as server, spark_session() as session:
        small, large = (
            measure(server, SparkRunner(session), rows=rows, subjects=given.subjects, folder=given.folder)
            for rows in given.rows
        )
    growth = given.rows[1] / given.rows[0]
    conclude(
        "verify",
        [
            Goal(
                "readings a second / those of taking the same files in",
                round(large.ingest_s / large.verify_s, 3),
                0.25,
                at_least=True,
            ),
            Goal(
                f"time of {growth:g} times the readings / {growth:g} times the time",
                round(large.verify_s / small.verify_s / growth, 3),
                1.1,
                at_least=False,
            ),
            Goal("peak memory of the driver in GB", round(large.peak / 1e9, 3), 1.0, at_least=False),
            Goal("kinds of numbers in which a changed bit was missed", len(large.missed), 0, at_least=False),
        ],
        {
            "rows": given.rows,
            "subjects": given.subjects,
            "ingest_seconds": [round(each.ingest_s, 1) for each in (small, large)],
            "verify_seconds": [round(each.verify_s, 1) for each in (small, large)],
            "readings_per_second": round(given.rows[1] / large.verify_s),
            "peak_bytes": [small.peak, large.peak],
            "changed": large.changed,
            "missed": large.missed,
        },
    )


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One plant."""

    ingest_s: float
    verify_s: float
    peak: int
    changed: int
    missed: list[str]


def measure(server: Server, runner: Runner, *, rows: int, subjects: int, folder: Path | None) -> Measured:
    """Take in and verify so many readings, then change a bit of each kind."""
    with plant_with_files(server, runner, rows=rows, subjects=subjects, folder=folder) as (plant, paths):
        plant.ingest(paths[:WARM_UP_FILES])
        assert verified(plant, runner).is_identical()
        began = time.perf_counter()
        plant.ingest(paths[WARM_UP_FILES:])
        ingest_s = (time.perf_counter() - began) * len(paths) / (len(paths) - WARM_UP_FILES)
        Path("/proc/self/clear_refs").write_text("5")
        began = time.perf_counter()
        report = verified(plant, runner)
        verify_s = time.perf_counter() - began
        peak = peak_bytes()
        assert report.is_identical(), report.differences[:3]
        assert report.readings == rows
        print(f"{rows:,} readings: taken in in {ingest_s:.1f} s, verified in {verify_s:.1f} s", flush=True)
        with plant.connect() as connection:
            changed = change_bits(connection, plant)
        found = {each.what for each in verified(plant, runner).differences}
        return Measured(
            ingest_s=ingest_s,
            verify_s=verify_s,
            peak=peak,
            changed=len(changed),
            missed=sorted(changed - found),
        )


@contextmanager
def plant_with_files(
    server: Server, runner: Runner, *, rows: int, subjects: int, folder: Path | None
) -> Iterator[tuple[Plant, list[Path]]]:
    """A plant that has seen nothing yet, and files for it with so many readings."""
    with tempfile.TemporaryDirectory(prefix="disarray-bench-", dir=folder) as name:
        home = Path(name)
        paths = write_files(home, rows=rows, files=rows // FILE_ROWS, subjects=subjects)
        with open_plant(server, home, description(), runner=runner) as plant:
            yield plant, paths


def verified(plant: Plant, runner: Runner) -> VerificationReport:
    """Everything once more."""
    with plant.connect() as connection:
        return verify(connection, runner, {plant.dataset.name: plant.dataset}, lake=plant.lake)


def change_bits(connection: Connection, plant: Plant) -> set[str]:
    """Change one bit of each kind of number, each in a segment of its own as far as there are enough."""
    segments = connection.execute(
        "select subject_key, segment_us from disarray.segment order by md5(segment_us::text || subject_key)"
    ).fetchall()
    changed = set()
    for number, (column, metric) in enumerate(SUMMARY_NUMBERS.items()):
        for subject_key, segment_us in segments[number % len(segments) :]:
            place = subject_key, segment_us, metric
            where = "subject_key = %s and segment_us = %s and metric = %s and piece = 0"
            query = f"select {column} from disarray.segment_metric where {where} and {column} is not null"
            row = connection.execute(query.encode(), place).fetchone()
            if row is not None:
                update = f"update disarray.segment_summary set {column} = %s where {where}"
                connection.execute(update.encode(), (other_bit(row[0]), *place))
                changed.add(f"metric {column}")
                break
    for number, (column, told) in enumerate(ROLLUP_NUMBERS.items(), start=3):
        subject_key, segment_us = segments[number % len(segments)]
        query = f"""
            select block.ctid::text, place, block.{column}[place]
            from disarray.rollup_block as block
            cross join generate_subscripts(block.{column}, 1) as place
            where subject_key = %s and segment_us = %s and block.{column}[place] is not null
            limit 1
        """
        found = connection.execute(query.encode(), (subject_key, segment_us)).fetchone()
        assert found is not None
        update = f"update disarray.rollup_block set {column}[{int(found[1])}] = %s where ctid = %s::tid"
        connection.execute(update.encode(), (other_bit(found[2]), found[0]))
        changed.add(f"rollup {told}")
    connection.execute(
        "update disarray.segment set readings = readings # 1 where (subject_key, segment_us) = (%s, %s)",
        segments[0],
    )
    [path] = connection.execute("select path from disarray.fragment order by path limit 1").fetchall()[0]
    flip_byte(Path(plant.lake.absolute(path)))
    return {*changed, "segment readings", "fragment"}


def other_bit(value: float) -> float:
    """The value with its last bit changed, or the float beside it."""
    return value ^ 1 if isinstance(value, int) else math.nextafter(value, math.inf)


def flip_byte(path: Path) -> None:
    """Change one bit in the middle of a file."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        [byte] = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


if __name__ == "__main__":
    main()
