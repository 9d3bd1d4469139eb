"""How many rows and bytes does PostgreSQL hold per subject, file, segment, summary, rollup part, commit and event?

    python -m benchmarks.capacity [--subjects 20 40] [--days 30 90] [--events 10000 60000]

Two plants of different size take in a file a day for each subject, of two channels with a reading a minute, one metric
and an hourly rollup of four aggregates; then one file that comes late for each subject. Events of programs are written
as they are kept. Rows and bytes of every table with its indexes, after a vacuum, are divided by what they grow with. If
the quotient is no greater in the large plant, years can be told from days: the last table multiplies it, for as long as
housekeeping keeps each row. Kernels run in this process; what is stored is the same.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.channels import DESCRIPTION, START
from benchmarks.goals import Goal, conclude, table
from benchmarks.plant import open_plant
from benchmarks.server import shared_server
from disarray.engine.runner import InProcessRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.plant import Plant
    from benchmarks.server import Server
    from disarray.control.connections import Connection

CHANNELS = 2
READINGS_A_DAY = 24 * 60 * CHANNELS
AGGREGATES = 4
# What a table grows with. The others have a row for each thing that is configured, or are empty at rest.
GROWS_WITH = {
    "file_info": "file",
    "file_fingerprint": "file",
    "ingest_event": "file",
    "fragment": "file",
    "lake_file": "file",
    "run": "commit",
    "subject_commit": "commit",
    "restatement": "restatement",
    "segment": "segment",
    "segment_summary": "summary",
    "rollup_block": "part",
    "subject": "subject",
    "subject_lock": "subject",
    "subject_version": "subject",
    "raw_event": "event",
}
# Days for which housekeeping keeps a row by default; the other tables grow for ever.
KEPT_DAYS = {"ingest_event": 365, "run": 90, "subject_commit": 30}
PLANTS = (
    ("1 subject, 1 year", 1, 1),
    ("100 subjects, 1 year", 100, 1),
    ("100 subjects, 5 years", 100, 5),
    ("10,000 subjects, 1 year", 10_000, 1),
    ("10,000 subjects, 5 years", 10_000, 5),
)
SIZES = """
select parent.relname, sum(pg_total_relation_size(leaf.oid))::bigint
from pg_class as parent
cross join lateral (
    select parent.oid where parent.relkind = 'r'
    union all
    select inhrelid from pg_inherits where inhparent = parent.oid
) as leaf (oid)
where parent.relnamespace = 'disarray'::regnamespace and parent.relkind in ('r', 'p') and not parent.relispartition
group by 1
"""


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a database holds: how many of each thing, and rows and bytes by table."""

    units: dict[str, int]
    rows: dict[str, int]
    bytes: dict[str, int]

    def bytes_a_unit(self, name: str) -> float:
        return self.bytes[name] / max(self.units[GROWS_WITH[name]], 1)

    def rows_a_unit(self, name: str) -> float:
        return self.rows[name] / max(self.units[GROWS_WITH[name]], 1)


def main() -> None:
    """Fill both plants, and tell what they hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subjects", type=int, nargs=2, default=(20, 40))
    parser.add_argument("--days", type=int, nargs=2, default=(30, 90))
    parser.add_argument("--events", type=int, nargs=2, default=(10_000, 60_000))
    parser.add_argument("--folder", type=Path, help="where files and lake are written")
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    with shared_server(given.dsn) as server:
        small, large = (
            fill(server, subjects=subjects, days=days, events=events, folder=given.folder)
            for subjects, days, events in zip(given.subjects, given.days, given.events, strict=True)
        )
    print(
        table(
            ("grows with", "table", "rows each", "bytes each, small", "bytes each, large"),
            (
                (
                    unit,
                    f"`{name}`",
                    f"{large.rows_a_unit(name):.2f}",
                    f"{small.bytes_a_unit(name):,.0f}",
                    f"{large.bytes_a_unit(name):,.0f}",
                )
                for name, unit in GROWS_WITH.items()
            ),
        )
    )
    print()
    print(
        table(
            ("plant", "files", "readings", "summaries", "in PostgreSQL", "most of it"),
            (extrapolated(large, *one) for one in PLANTS),
        )
    )
    print()
    conclude(
        "capacity",
        [
            Goal(
                f"bytes by {unit}, large plant / small plant",
                round(bytes_of(large, unit) / bytes_of(small, unit), 2),
                1.2,
                at_least=False,
            )
            for unit in ("file", "segment", "summary", "part", "commit", "event")
        ],
        {
            "units": large.units,
            "bytes_each": {
                unit: round(bytes_of(large, unit), 1) for unit in dict.fromkeys(GROWS_WITH.values())
            },
            "rows": large.rows,
            "bytes": large.bytes,
        },
    )


def bytes_of(held: Held, unit: str) -> float:
    """Bytes of all tables that grow with a thing, for each of it."""
    return sum(held.bytes_a_unit(name) for name, with_what in GROWS_WITH.items() if with_what == unit)


def extrapolated(held: Held, name: str, subjects: int, years: int) -> tuple[str, ...]:
    """What a plant of so many subjects with a file a day holds after so many years."""
    files = subjects * years * 365
    units = {
        "file": files,
        "segment": files,
        "commit": files,
        "summary": files * CHANNELS,
        "part": files * CHANNELS * 24 * AGGREGATES,
        "subject": subjects,
    }
    grown = {
        table: held.bytes_a_unit(table)
        * units[unit]
        * min(1, KEPT_DAYS.get(table, 365 * years) / (365 * years))
        for table, unit in GROWS_WITH.items()
        if unit in units
    }
    return (
        name,
        f"{files:,}",
        f"{files * READINGS_A_DAY / 1e6:,.0f} M",
        f"{units['summary']:,}",
        f"{sum(grown.values()) / 1e9:,.2f} GB",
        ", ".join(
            f"`{table}` {size / sum(grown.values()):.0%}"
            for table, size in sorted(grown.items(), key=lambda one: -one[1])[:3]
        ),
    )


def fill(server: Server, *, subjects: int, days: int, events: int, folder: Path | None) -> Held:
    """Take in the files of a plant day by day, then what is late."""
    with tempfile.TemporaryDirectory(prefix="disarray-bench-", dir=folder) as name:
        home = Path(name)
        with open_plant(server, home, DESCRIPTION, runner=InProcessRunner()) as plant:
            late = days // 2
            for day in [*(day for day in range(days) if day != late), late]:
                plant.ingest(list(write_day(home, subjects, day)))
            keep_events(plant, events)
            return measured(plant)


def write_day(home: Path, subjects: int, day: int) -> Iterator[Path]:
    """One day of each subject."""
    begin = START + timedelta(days=day)
    for subject in range(subjects):
        path = home / "inbox" / f"RIG{subject:05d}" / f"{begin:%Y-%m-%d}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            file.write("time,channel,value\n")
            for minute in range(24 * 60):
                at = (begin + timedelta(minutes=minute)).isoformat()
                file.writelines(
                    f"{at},c{channel},{(minute * 7 + channel) % 100}.5\n" for channel in range(CHANNELS)
                )
        yield path


def keep_events(plant: Plant, count: int) -> None:
    """Events of a tool as they are kept once they are delivered: the hash stays, the payload is in the delivery."""
    with plant.connect() as connection:
        connection.execute(
            """
            insert into disarray.raw_event
                (event_id, dataset, event_hash, received_at, recorded_by, state, attempts, available_at, batch_no,
                settled_at)
            select n, 'rig', sha256(n::text::bytea), now(), 'disarray_producer', 'done', 1, now(), n / 1000, now()
            from generate_series(1, %s) as n
            """,
            (count,),
        )


def measured(plant: Plant) -> Held:
    """Rows and bytes of every table at rest."""
    with plant.connect() as connection:
        connection.autocommit = True
        connection.execute("set statement_timeout = 0")
        connection.execute("vacuum analyze")
        sizes = {str(name): int(size) for name, size in connection.execute(SIZES)}
        rows = {name: _count(connection, name) for name in GROWS_WITH}
        units = {
            "file": rows["file_info"],
            "segment": rows["segment"],
            "summary": rows["segment_summary"],
            "part": _count(connection, "rollup"),
            "commit": rows["subject_commit"],
            "restatement": rows["restatement"],
            "subject": rows["subject"],
            "event": rows["raw_event"],
        }
    return Held(units=units, rows=rows, bytes={name: sizes[name] for name in GROWS_WITH})


def _count(connection: Connection, name: str) -> int:
    row = connection.execute(f"select count(*) from disarray.{name}".encode()).fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    main()
