"""What others see: `python3 show.py warehouse` asks the PostgreSQL of the warehouse, `lakehouse` the Delta table.

Neither knows anything of disarray.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
from deltalake import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).parent
QUERY = """
select subject_key, strftime(bucket_start, '%m-%d %H:%M'), strokes, mean_kn, highest_kn, commit_seq
from hourly order by subject_key, bucket_start
"""


def warehouse() -> Sequence[tuple[Any, ...]]:
    """The table, by any client of PostgreSQL."""
    query = QUERY.replace("strftime(bucket_start, '%m-%d %H:%M')", "to_char(bucket_start, 'MM-DD HH24:MI')")
    with psycopg.connect((FOLDER / "warehouse.url").read_text().strip()) as connection:
        connection.execute("set timezone = 'UTC'; set search_path = plant")
        return connection.execute(query.encode()).fetchall()


def lakehouse(version: int | None) -> Sequence[tuple[Any, ...]]:
    """The Delta table by DuckDB, as it is or as it was in a former version."""
    hourly = DeltaTable(FOLDER / "published" / "hourly", version=version).to_pyarrow_dataset()
    with duckdb.connect() as session:
        session.execute("set timezone = 'UTC'")
        session.register("hourly", hourly)
        return session.execute(QUERY).fetchall()


def main() -> None:
    """Print the hours of both presses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", choices=("warehouse", "lakehouse"))
    parser.add_argument("--version", type=int, help="a former version of the Delta table")
    chosen = parser.parse_args()
    rows = warehouse() if chosen.where == "warehouse" else lakehouse(chosen.version)
    layout = "{:8} {:12} {:>7} {:>8} {:>11} {:>11}"
    print(layout.format("press", "hour", "strokes", "mean kN", "highest kN", "commit_seq"))  # noqa: T201
    for row in rows:
        print(layout.format(*row))  # noqa: T201


if __name__ == "__main__":
    main()
