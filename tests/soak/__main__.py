"""`make soak MINUTES=30 SEED=7`: a plant under faults for as long as you like, and then every question at once."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import tempfile
from pathlib import Path

from tests.soak.report import say
from tests.soak.run import Order, run_soak


def main() -> int:
    """Soak, print the table, and say with 0 or 1 whether everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="for how long faults strike")
    parser.add_argument("--seed", type=int, default=7, help="which files, which faults, in which order")
    parser.add_argument("--tools", type=int, default=60, help="how many subjects")
    parser.add_argument("--files-per-minute", type=int, default=650, help="reports; copies come on top")
    parser.add_argument("--drain-minutes", type=float, default=10.0, help="how long the backlog may take")
    parser.add_argument("--without-spark", action="store_true", help="no worker with Spark, and no verify")
    parser.add_argument("--keep", action="store_true", help="leave the folder with all logs")
    given = parser.parse_args()
    order = Order(
        minutes=given.minutes,
        seed=given.seed,
        tools=given.tools,
        files_per_minute=given.files_per_minute,
        drain_minutes=given.drain_minutes,
        with_spark=not given.without_spark,
    )
    # That the database is away is what this is about; the pool would tell of every attempt.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="disarray-soak-"))
    is_good = False
    try:
        is_good = run_soak(order, folder)
    except KeyboardInterrupt:
        say("broken off; everything that was started has ended")
    finally:
        if is_good and not given.keep:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)
        else:
            say(f"its folder with all logs: {folder}")
    if not is_good:
        say(f"again: make soak MINUTES={given.minutes:g} SEED={given.seed}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
