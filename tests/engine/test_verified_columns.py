"""Whatever is stored of a number and compared by a recompute: one wrong value in any of its columns is found."""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from disarray.engine.verification.record import VerificationRecord
from tests.engine.test_verification import key, plant  # noqa: F401 - fixtures
from tests.engine.verification_world import report
from tests.store.test_catalog_columns import VERIFIED, VERIFIED_PARTS

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from tests.engine.test_verification import VerifiedPlant

pytestmark = pytest.mark.postgres

CHANGES = {
    "bigint": "{0} + 1",
    "integer": "{0} + 1",
    "smallint": "1 - {0}",
    "boolean": "not {0}",
    "text": "case when reverse({0}) = {0} then {0} || 'x' else reverse({0}) end",
    "double precision": "{0} + 1",
}
# With it a file has a row for every column.
SEED = 2
# A wrong minimum or maximum within the block need not show: that of all blocks before may go before it.
SHOWS = {"segment_summary": "metric not in ('lowest', 'highest_since_order')"}
# Of one channel it is the same whether its buckets are a grid.
SHOWS_OF_COLUMNS = {"rollup_block.is_grid": "cardinality(channels) > 1"}
# The database holds the lengths of the columns of a block against each other.
REFUSED = {"rollup_block.is_grid"}


def verified_columns(connection: Connection) -> list[tuple[str, str, str]]:
    """Table, column and type of what is stored and compared."""
    stored = connection.execute(
        """
        select relation.relname::text, attribute.attname::text, format_type(attribute.atttypid, attribute.atttypmod)
        from pg_attribute as attribute
        inner join pg_class as relation on attribute.attrelid = relation.oid
        where relation.relnamespace = 'disarray'::regnamespace and attribute.attnum > 0 and not attribute.attisdropped
        order by relation.relname, attribute.attnum
        """
    ).fetchall()
    compared = {
        (table, column)
        for table, comparison in VERIFIED.items()
        if table != "rollup"
        for column in comparison.schema.names
    } | {
        tuple(name.split("."))
        for name in ("rollup_block.subject_key", "rollup_block.segment_us", *VERIFIED_PARTS)
    }
    return [
        (str(table), str(column), str(kind)) for table, column, kind in stored if (table, column) in compared
    ]


def damage(connection: Connection, subject_key: str, *, table: str, column: str, kind: str) -> bool:
    """Change one value of one row of a subject; False where the database refuses that."""
    is_array = kind.endswith("[]")
    place = f"array_position({column}, (select each from unnest({column}) as each where each is not null limit 1))"
    value = f"{column}[{place}]" if is_array else column
    there = (
        f"(select true from unnest({column}) as each where each is not null limit 1)" if is_array else column
    )
    changed = CHANGES[kind.removesuffix("[]")].format(value)
    shows = SHOWS_OF_COLUMNS.get(f"{table}.{column}", SHOWS.get(table, "true"))
    statement = f"""
        update disarray.{table} set {value} = {changed}
        where ctid = (
            select ctid from disarray.{table} where subject_key = '{subject_key}' and {there} is not null and {shows}
            order by segment_us desc, ctid limit 1
        )
    """
    try:
        with connection.transaction():
            done = connection.execute(sql.SQL(statement)).rowcount
    except (psycopg.errors.IntegrityError, psycopg.errors.DataException):
        return False
    assert done == 1, f"no row of {subject_key} has {table}.{column}"
    return True


def test_a_wrong_value_in_any_column_that_is_compared_is_found(plant: VerifiedPlant) -> None:  # noqa: F811
    with plant.pool.connection() as connection:
        columns = verified_columns(connection)
    subjects = {f"S{number:02}": each for number, each in enumerate(columns)}
    plant.ingest(
        *(
            plant.write(f"{subject}/a.csv", report(random.Random(SEED), hour=0, rows=160))
            for subject in [*subjects, "UNTOUCHED"]
        )
    )
    refused = set()
    for subject, (table, column, kind) in subjects.items():
        with plant.pool.connection() as connection:
            if not damage(connection, subject, table=table, column=column, kind=kind):
                refused.add(subject)
    plant.verify(record=VerificationRecord(uuid.uuid4(), {}))
    verdicts = {
        str(subject): verdict
        for subject, verdict in plant.rows("select subject_key, verdict from disarray.subject_verification")
    }
    assert {".".join(subjects[each][:2]) for each in refused} == REFUSED
    assert verdicts["UNTOUCHED"] == "identical"
    unnoticed = {subject for subject in subjects if verdicts.get(subject) != "different"}
    assert {".".join(subjects[each][:2]) for each in unnoticed.difference(refused)} == set()
