"""Does the time of `audit` grow with the readings alone, does `audit --deep` read at disk speed, what does it find?

    python -m benchmarks.audit [--rows 2000000 20000000] [--subjects 4] [--turns 3]

Two plants, one ten times the size of the other, filled as in `benchmarks.verify`: files of 100,000 readings, three
metrics and two rollups, taken in with Spark on two cores. Each is audited at rest, in one process as the command does;
the best of the turns counts. Files of the lake are in the page cache of all turns but those of the checksums.

Those are timed apart: `find_changed_files` beside a plain read of the same files from front to end, with pieces of the
same size, taking turns; both from disk (their pages are dropped from the cache before) and, told as well, from memory.
A pass of the rescan alone says which share of `--deep` it has. Then a bit is flipped in a file of the lake.
"""

from __future__ import annotations

import argparse
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.goals import Goal, conclude
from benchmarks.plant import spark_session, stored_bytes, timed
from benchmarks.server import settle, shared_server
from benchmarks.verify import ROWS, flip_byte, plant_with_files
from disarray.control import audit_catalog
from disarray.engine.runner import SparkRunner
from disarray.store.audit.audit import AuditSettings, Outcome, audit
from disarray.store.audit.lake_files import find_changed_files, find_misread_segments

if TYPE_CHECKING:
    from benchmarks.plant import Plant
    from benchmarks.server import Server
    from disarray.engine.runner import Runner

_READ_BYTES = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs=2, default=ROWS)
    parser.add_argument("--subjects", type=int, default=4)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where files and lake are written")
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    with shared_server(given.dsn) as server, spark_session() as session:
        small, large = (
            measure(
                server,
                SparkRunner(session),
                rows=rows,
                subjects=given.subjects,
                turns=given.turns,
                folder=given.folder,
            )
            for rows in given.rows
        )
    growth = given.rows[1] / given.rows[0]
    conclude(
        "audit",
        [
            Goal(
                f"`audit`: seconds of {growth:g} times the readings / {growth:g} times the seconds",
                round(large.audit_s / small.audit_s / growth, 3),
                1.1,
                at_least=False,
            ),
            Goal(
                "`audit --deep`: the same",
                round(large.deep_s / small.deep_s / growth, 3),
                1.1,
                at_least=False,
            ),
            Goal(
                "bytes a second of the checksums / of a plain read, from disk",
                round(large.plain_s["disk"] / large.checksums_s["disk"], 3),
                0.5,
                at_least=True,
            ),
            Goal(
                "flipped bits that `audit --deep` missed",
                sum(not each.is_flip_found for each in (small, large)),
                0,
                at_least=False,
            ),
        ],
        {"rows": given.rows, "subjects": given.subjects, "small": small.told(), "large": large.told()},
    )


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One plant: seconds, by where bytes come from as far as it matters."""

    rows: int
    bytes: int
    audit_s: float
    deep_s: float
    rescan_s: float
    plain_s: dict[str, float]
    checksums_s: dict[str, float]
    is_flip_found: bool

    def told(self) -> dict[str, Any]:
        """For the result."""
        return {
            "rows": self.rows,
            "lake_bytes": self.bytes,
            "audit_seconds": round(self.audit_s, 2),
            "deep_seconds": round(self.deep_s, 2),
            "deep_readings_per_second": round(self.rows / self.deep_s),
            "rescan_seconds": round(self.rescan_s, 2),
            "share_of_the_rescan": round(self.rescan_s / self.deep_s, 2),
            "rescanned_readings_per_second": round(self.rows / self.rescan_s),
            "checksums_mb_per_second": _rates(self.bytes, self.checksums_s),
            "plain_read_mb_per_second": _rates(self.bytes, self.plain_s),
        }


def _rates(size: int, seconds: dict[str, float]) -> dict[str, int]:
    return {source: round(size / taken / 1e6) for source, taken in seconds.items()}


def measure(
    server: Server, runner: Runner, *, rows: int, subjects: int, turns: int, folder: Path | None
) -> Measured:
    """Fill a plant, audit it, and damage it."""
    with plant_with_files(server, runner, rows=rows, subjects=subjects, folder=folder) as (plant, paths):
        plant.ingest(paths)
        settle(plant.dsn)
        assert broken_rules(plant, is_deep=True) == {}
        audit_s = min(timed(broken_rules, plant, is_deep=False) for _ in range(turns))
        deep_s = min(timed(broken_rules, plant, is_deep=True) for _ in range(turns))
        rescan_s = min(timed(rescan, plant) for _ in range(turns))
        plain_s, checksums_s = read_seconds(plant, turns=turns)
        [path] = max((each.stat().st_size, each) for each in lake_files(plant))[1:]
        flip_byte(path)
        found = broken_rules(plant, is_deep=True)
        measured = Measured(
            rows=rows,
            bytes=stored_bytes(plant.lake.root),
            audit_s=audit_s,
            deep_s=deep_s,
            rescan_s=rescan_s,
            plain_s=plain_s,
            checksums_s=checksums_s,
            is_flip_found=str(path.relative_to(plant.lake.root))
            in found.get("lake_files_are_as_written", ()),
        )
        print(f"{rows:,} readings: {measured.told()}", flush=True)
        return measured


def broken_rules(plant: Plant, *, is_deep: bool) -> dict[str, list[str]]:
    """What an audit of the plant at rest finds, by rule: where it is."""
    with plant.connect() as connection:
        verdicts = audit(connection, plant.lake, AuditSettings(is_deep=is_deep, datasets=[plant.dataset]))
    return {
        each.rule.name: [finding.found_at for finding in each.findings]
        for each in verdicts
        if each.outcome is Outcome.BROKEN
    }


def rescan(plant: Plant) -> None:
    """Every segment made once more from its fragments, and nothing else of an audit."""
    with plant.connect() as connection:
        assert list(find_misread_segments(connection, plant.lake)) == []


def read_seconds(plant: Plant, *, turns: int) -> tuple[dict[str, float], dict[str, float]]:
    """Medians of a plain read of all files of the lake and of their checksums, from disk and from memory."""
    with plant.connect() as connection:
        live = audit_catalog.list_live_lake_files(connection)
    paths = [Path(plant.lake.absolute(file.path)) for file in live]

    def plain() -> None:
        for path in paths:
            with path.open("rb") as opened:
                while opened.read(_READ_BYTES):
                    pass

    def checksums() -> None:
        assert list(find_changed_files(plant.lake, live)) == []

    seconds: dict[str, list[list[float]]] = {"disk": [[], []], "memory": [[], []]}
    for _ in range(turns):
        for source, ways in seconds.items():
            for way, taken in zip((plain, checksums), ways, strict=True):
                if source == "disk":
                    drop_from_cache(paths)
                taken.append(timed(way))
    plain_s, checksums_s = (
        {source: statistics.median(ways[number]) for source, ways in seconds.items()} for number in (0, 1)
    )
    return plain_s, checksums_s


def drop_from_cache(paths: list[Path]) -> None:
    """Have the next read of these files come from disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def lake_files(plant: Plant) -> list[Path]:
    """Every file of the lake."""
    return [path for path in plant.lake.root.rglob("*") if path.is_file()]


if __name__ == "__main__":
    main()
