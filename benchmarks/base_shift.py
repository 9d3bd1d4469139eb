"""What does a shift of bases cost, by how many segments lie to the right of a change?

    python -m benchmarks.base_shift [--segments 1000 10000 100000] [--blocks 32 128 512] [--repairs 15]

Summaries of one channel with one metric (a sum of floats), as many as segments, in blocks of each length; also in one
block, which is what it was before there were blocks: every base to the right is rewritten. A segment in the first
hundred changes and the shift of the commit runs: with the ledger, as when published values are restated, and rolled
back. Medians of repairs spread over that block; no file is read, so this is what a late file costs beside its own
readings.
"""

from __future__ import annotations

import argparse
import statistics
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.goals import Goal, conclude
from benchmarks.plant import timed
from benchmarks.server import shared_server
from disarray.control import connections, migrations

if TYPE_CHECKING:
    from disarray.control.connections import Connection

SEGMENT_US = 300 * 1_000_000
LONG, PER_BLOCK = 100_000, 128


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--segments", type=int, nargs="+", default=[1_000, 10_000, LONG])
    parser.add_argument("--blocks", type=int, nargs="+", default=[32, PER_BLOCK, 512])
    parser.add_argument("--repairs", type=int, default=15)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    figures: dict[str, Any] = {"shift_ms": {}, "rows_written": {}}
    with shared_server(given.dsn) as server, server.database("shift") as dsn:
        with connections.connect(dsn) as connection:
            migrations.migrate(connection)
        with psycopg.connect(dsn, autocommit=True) as connection:
            for segments in given.segments:
                for per_block in (*given.blocks, segments):
                    name = "one block" if per_block == segments else f"blocks of {per_block}"
                    subject = f"{segments} in {name}"
                    build(connection, subject, segments=segments, per_block=per_block)
                    done = [
                        repair(connection, subject, segment=7 + 89 * number // given.repairs)
                        for number in range(given.repairs + 2)
                    ][2:]
                    figures["shift_ms"][subject] = round(
                        1000 * statistics.median(taken for taken, _ in done), 1
                    )
                    figures["rows_written"][subject] = round(statistics.median(rows for _, rows in done))
                    print(
                        f"{subject}: {figures['shift_ms'][subject]} ms, {figures['rows_written'][subject]} rows"
                    )
    shift_ms = figures["shift_ms"]
    blocks, one = (f"{LONG} in {name}" for name in (f"blocks of {PER_BLOCK}", "one block"))
    is_full = {blocks, one} <= shift_ms.keys()
    goals = [
        Goal(
            f"times faster in blocks of {PER_BLOCK} than in one block, {LONG:,} segments",
            round(shift_ms[one] / shift_ms[blocks], 1) if is_full else 0.0,
            20,
            at_least=True,
            applies=is_full,
        )
    ]
    conclude("base_shift", goals, figures)


def build(connection: psycopg.Connection, subject: str, *, segments: int, per_block: int) -> None:
    """A subject whose bases are right."""
    with connection.transaction():
        connection.execute(
            """
            insert into disarray.dataset_version (
                dataset, parse_version, scan_version, definition, registered_at, in_force_since
            )
            values ('D', 'parse', 'scan', '{}', now(), now())
            on conflict do nothing
            """
        )
        connection.execute(
            "insert into disarray.metric values ('D', 'scan', 'm', 'sum', 'trapezoid', null, false, '') "
            "on conflict do nothing"
        )
        connection.execute(
            "insert into disarray.subject_version values (%s, 'D', 'parse', 'scan', %s)",
            (subject, per_block * SEGMENT_US),
        )
        connection.execute(
            """
            insert into disarray.segment_summary (
                dataset, subject_key, metric, channel, block_us, segment_us, piece, readings, points, total_float,
                first_us, first_float, last_us, last_float, first_reading_us, last_reading_us
            )
            select
                'D', %(subject)s, 'm', '', telemetry.block_of(us, %(block_us)s), us, 0, 300, 300, at * 0.1 + 0.3,
                us, 0.1, us + 299000000, 0.3, us, us + 299000000
            from generate_series(0, %(last)s) as at
            cross join lateral (select at * %(segment_us)s::bigint as us) as begins
            """,
            {
                "subject": subject,
                "block_us": per_block * SEGMENT_US,
                "segment_us": SEGMENT_US,
                "last": segments - 1,
            },
        )
        connection.execute("select telemetry.recompute_running_totals('D', %s, 0)", (subject,))
    connection.execute("vacuum analyze disarray.segment_summary")
    connection.execute("vacuum analyze disarray.metric_block")


def repair(connection: Connection, subject: str, *, segment: int) -> tuple[float, int]:
    """Seconds that the shift takes after one segment changed, and how many rows it writes."""
    changed = [segment * SEGMENT_US]
    rows: list[int] = []

    def shift() -> None:
        found = connection.execute(
            """
            select bases_shifted
            from telemetry.shift_bases(
                'D', %s, %s, jsonb_build_object('changed', %s::bigint[], 'heads', '[]'::jsonb), %s
            )
            """,
            (subject, changed[0], changed, changed),
        ).fetchone()
        assert found is not None
        rows.append(int(found[0]))

    with connection.transaction(force_rollback=True):
        connection.execute(
            "update disarray.segment_summary set total_float = total_float + 1 "
            "where subject_key = %s and segment_us = %s",
            (subject, changed[0]),
        )
        taken = timed(shift)
    return taken, rows[0]


if __name__ == "__main__":
    main()
