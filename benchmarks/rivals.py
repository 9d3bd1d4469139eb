"""Other ways to mend running totals after a late file."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import psycopg
from pyspark.sql import Window
from pyspark.sql import functions as f

from benchmarks.history import HOLE_S, HOLE_START_S
from benchmarks.plant import CORES, timed
from benchmarks.telemetry_files import DAY_S
from disarray.model.description.format import EVENT_US

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

# The four hours of the second day that come late.
_HOLE = range(DAY_S + HOLE_START_S, DAY_S + HOLE_START_S + HOLE_S)


def classic_repair(dsn: str, rows: int) -> float:
    """Seconds to insert four hours and update every running total to their right, in one transaction."""
    with psycopg.connect(dsn) as connection:
        connection.execute("create table reading (at_s bigint primary key, amps float8, charge float8)")
        connection.execute(
            """
            insert into reading
            select at_s, amps, sum(amps / 3600.0) over (order by at_s)
            from (
                select at_s, 10 + (at_s * 7919 %% 900000) / 10000.0 as amps
                from generate_series(0::bigint, %s::bigint) as at_s
                where at_s < %s or at_s >= %s
            ) as given
            """,
            (rows - 1, _HOLE.start, _HOLE.stop),
        )
        connection.commit()
        connection.autocommit = True
        connection.execute("vacuum analyze reading")
        connection.execute("checkpoint")
        connection.execute("set work_mem = '512MB'")

        def repair() -> None:
            with connection.transaction():
                connection.execute(
                    """
                    insert into reading
                    select at_s, 10 + (at_s * 7919 %% 900000) / 10000.0, 0
                    from generate_series(%s::bigint, %s::bigint) as at_s
                    """,
                    (_HOLE.start, _HOLE.stop - 1),
                )
                connection.execute(
                    """
                    update reading
                    set charge = folded.charge
                    from (
                        select
                            at_s,
                            (select charge from reading where at_s = %(before)s)
                                + sum(amps / 3600.0) over (order by at_s) as charge
                        from reading
                        where at_s > %(before)s
                    ) as folded
                    where reading.at_s = folded.at_s
                    """,
                    {"before": _HOLE.start - 1},
                )

        return timed(repair)


def spark_recompute(session: SparkSession, parquet: Sequence[str], target: Path) -> float:
    """Seconds of one window over the whole history."""
    so_far = Window.orderBy(EVENT_US).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    readings = session.read.parquet(*parquet).select(EVENT_US, "amps")
    running = readings.select(EVENT_US, f.sum(f.col("amps") / 3600.0).over(so_far).alias("charge"))
    taken = timed(lambda: running.write.parquet(str(target)))
    shutil.rmtree(target)
    return taken


def duckdb_recompute(_: SparkSession, parquet: Sequence[str], target: Path) -> float:
    """Seconds of one window over the whole history."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"set threads = {CORES}")
        connection.execute("set memory_limit = '6GB'")
        connection.execute(f"set temp_directory = '{target}.spill'")
        taken = timed(
            lambda: connection.execute(
                f"""
                copy (
                    select {EVENT_US}, sum(amps / 3600.0) over (order by {EVENT_US} rows unbounded preceding) as charge
                    from read_parquet($files)
                ) to '{target}' (format parquet)
                """,
                {"files": list(parquet)},
            )
        )
    target.unlink()
    shutil.rmtree(f"{target}.spill", ignore_errors=True)
    return taken
