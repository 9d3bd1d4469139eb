"""How many rows and bytes does PostgreSQL hold per subject, file, segment, summary, block, part, commit and event?

    python -m benchmarks.capacity [--subjects 20 40] [--days 30 90] [--block-days 20 120] [--events 10000 60000]

Two plants of different size take in a file a day for each subject, of two channels with a reading a minute, one metric
and an hourly rollup of four aggregates; then one file that comes late for each subject. Events of programs are written
as they are kept. A block is 128 days of a channel, so these plants hardly have any: two more plants take in days that
lie a block apart each, one of them late, and tell what a block takes. Rows and bytes of every table with its indexes,
after a vacuum, are divided by what they grow with. If the quotient is no greater in the large plant, years can be told
from days: the last table multiplies it, for as long as housekeeping keeps each row. Kernels run in this process; what
is stored is the same. A run at these sizes writes both tables into docs/capacity.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.capacity_page import (
    CHANNELS,
    GROWS_WITH,
    Held,
    formula,
    plants_table,
    things_table,
    write_page,
)
from benchmarks.channels import DESCRIPTION, START
from benchmarks.goals import COMMITTED_RESULTS, Goal, conclude, results_folder
from benchmarks.plant import open_plant
from benchmarks.server import shared_server
from disarray.engine.runner import InProcessRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from benchmarks.plant import Plant
    from benchmarks.server import Server
    from disarray.control.connections import Connection

# So many channels have a reading on each day that lies a block apart.
BLOCK_CHANNELS = 50
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


def main() -> None:
    """Fill both plants, and tell what they hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subjects", type=int, nargs=2, default=(20, 40))
    parser.add_argument("--days", type=int, nargs=2, default=(30, 90))
    parser.add_argument("--block-days", type=int, nargs=2, default=(20, 120))
    parser.add_argument("--events", type=int, nargs=2, default=(10_000, 60_000))
    parser.add_argument("--folder", type=Path, help="where files and lake are written")
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    with shared_server(given.dsn) as server:
        small, large = (
            fill(server, subjects=subjects, days=days, events=events, folder=given.folder)
            | fill_blocks(server, days=block_days, folder=given.folder)
            for subjects, days, block_days, events in zip(
                given.subjects, given.days, given.block_days, given.events, strict=True
            )
        )
    figures = {"small": asdict(small), "large": asdict(large)}
    print(f"{things_table(small, large)}\n\n{plants_table(large)}\n\n{formula(large)}\n")
    if results_folder(sys.argv[1:]) == COMMITTED_RESULTS:
        write_page(figures)
    conclude(
        "capacity",
        [
            Goal(
                f"bytes by {unit}, large plant / small plant",
                round(large.bytes_of(unit) / small.bytes_of(unit), 2),
                1.2,
                at_least=False,
            )
            for unit in ("file", "segment", "summary", "block", "part", "commit", "event")
        ],
        figures,
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


def fill_blocks(server: Server, *, days: int, folder: Path | None) -> Held:
    """Take in days of one subject that lie a block apart, one of them late; only its blocks are measured."""
    with tempfile.TemporaryDirectory(prefix="disarray-bench-", dir=folder) as name:
        home = Path(name)
        with open_plant(server, home, DESCRIPTION, runner=InProcessRunner()) as plant:
            with plant.connect() as connection:
                length = timedelta(days=count(connection, "select disarray.segments_per_block()"))
            paths = [write_block_day(home, START - number * length) for number in range(days)]
            late = paths.pop(days // 2)
            plant.ingest(paths)
            plant.ingest([late])
            held = measured(plant)
            assert held.rows["metric_block"] == days * BLOCK_CHANNELS
            return held.only("metric_block")


def write_block_day(home: Path, at: datetime) -> Path:
    """One reading of each channel."""
    path = home / "inbox" / "RIG" / f"{at:%Y-%m-%d}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{at.isoformat()},c{channel:03d},{channel}.5\n" for channel in range(BLOCK_CHANNELS))
    path.write_text("time,channel,value\n" + "".join(lines))
    return path


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
        rows = {name: count(connection, f"select count(*) from disarray.{name}") for name in GROWS_WITH}
        units = {
            "file": rows["file_info"],
            "segment": rows["segment"],
            "summary": rows["segment_summary"],
            "block": rows["metric_block"],
            "part": count(connection, "select count(*) from disarray.rollup"),
            "commit": rows["subject_commit"],
            "restatement": rows["restatement"],
            "subject": rows["subject"],
            "event": rows["raw_event"],
        }
    return Held(units=units, rows=rows, bytes={name: sizes[name] for name in GROWS_WITH})


def count(connection: Connection, query: str) -> int:
    """The one number that a query answers."""
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    main()
