"""How much memory does a backfill of a large table take?

    python -m benchmarks.backfill_memory [--rows 50000000]

A column of a user's table is set from two others by `disarray backfill start` with two chunks at once, while somebody
changes one row after the other. Memory is the peak of that process, and of each of its sessions on the server what is
not shared. Needs some 15 GB of disk: every row is written twice.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time

from benchmarks.backfill import fill, run_command
from benchmarks.goals import Goal, conclude
from benchmarks.server import shared_server
from disarray.control import connections, migrations


def main() -> None:
    """Fill the table, change it, and tell what it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    # Ended by `kill`, it drops its database as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with shared_server(given.dsn) as server, server.database("backfill") as dsn:
        with connections.connect(dsn) as connection:
            migrations.migrate(connection)
        began = time.monotonic()
        fill(dsn, given.rows)
        print(f"{given.rows:,} rows written in {time.monotonic() - began:.0f} s", flush=True)
        ours = run_command(dsn)
    conclude(
        "backfill_memory",
        [
            Goal("peak MB of any process", ours["peak_mb"], 400, at_least=False),
            Goal("last tenth of the chunks / first", ours["last_tenth"], 1.2, at_least=False),
        ],
        {"rows": given.rows, "rows_per_second": round(given.rows / ours["seconds"])} | ours,
    )


if __name__ == "__main__":
    main()
