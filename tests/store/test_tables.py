"""Readings in a table: what SQL users see, what a commit writes, and what it leaves alone."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from disarray.control import connections, readings
from disarray.errors import InvalidRequestError, StoreMismatchError
from disarray.kernels.scanning import table_rows
from disarray.model.description.dataset import Store
from disarray.model.description.readings_table import identifier, readings_table
from disarray.model.duration import HOUR, MINUTE
from disarray.queries.readings import readings as readings_of
from disarray.store.registering import register
from tests.plant import Plant
from tests.store.conftest import DATASET, in_store
from tests.store.test_values import START_US, rows_of, write

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.postgres

EDGES = """
[[dataset]]
name = "order"
store = "timescale"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "365 d"
future_tolerance = "365000 d"
key = "none"
channel = "channel"
order_by = ["n"]
[dataset.columns.channel]
type = "string"
[dataset.columns.n]
type = "int64"
[dataset.columns.user]
type = "float64"
[dataset.columns.position]
type = "string"
[dataset.columns.seen]
type = "timestamp"
layouts = ["iso"]
[dataset.columns.flag]
type = "bool"
[dataset.metrics.user]
kind = "max"
input = "user"
[dataset.metrics.select]
kind = "count"
"""


def told(plant: Plant, subject: str = "C1") -> list[dict[str, Any]]:
    """Readings with their values, by the program."""
    [dataset] = plant.datasets.values()
    with plant.pool.connection() as connection:
        found = readings_of(connection, plant.place.lake, dataset=dataset, subject_key=subject)
        return [row for table in found for row in table.to_pylist()]


def shown(plant: Plant, view: str = "cells_running") -> list[tuple[Any, ...]]:
    """Readings with their values, by SQL."""
    return plant.rows(f'select * from telemetry."{view}" order by subject_key, event_at, ordinal')


def versions(plant: Plant) -> dict[tuple[Any, ...], Any]:
    """Which transaction wrote each row."""
    return {
        row[:2]: row[2] for row in plant.rows("select _segment_us, ordinal, xmin::text from telemetry.cells")
    }


def test_the_table_is_a_hypertable_where_the_extension_is_and_partitioned_where_it_is_not(
    table_plant: Plant,
) -> None:
    table_plant.ingest(write(table_plant, "C1/0.csv", rows_of(1, hours=(0, 24 * 40))))
    if os.environ.get("DISARRAY_TEST_TIMESCALE_DSN"):
        found = table_plant.rows(
            "select hypertable_name::text, num_chunks from timescaledb_information.hypertables"
        )
        assert found == [("cells", 2)]
    else:
        found = table_plant.rows(
            "select inhrelid::regclass::text from pg_inherits where inhparent = 'telemetry.cells'::regclass order by 1"
        )
        assert found == [("telemetry.cells_y2026m10",), ("telemetry.cells_y2026m11",)]


def test_the_view_tells_what_the_program_tells_bit_for_bit(table_plant: Plant) -> None:
    rows = rows_of(3, hours=(0, 1, 2, 5)) + rows_of(4, hours=(3,), slots="b")
    for part in range(3):
        table_plant.ingest(write(table_plant, f"C1/{part}.csv", rows[part::3]))
    wanted = [
        (
            row["subject_key"],
            row["event_time"],
            row["channel"],
            *list(row.values())[3:-2],
            True,
            *list(row.values())[-2:],
        )
        for row in told(table_plant)
    ]
    assert [row[:-1] for row in shown(table_plant)] == wanted
    assert len(wanted) == len(rows)


def test_the_view_says_what_is_stale_and_makes_up_nothing_where_a_base_is_missing(table_plant: Plant) -> None:
    table_plant.ingest(write(table_plant, "C1/0.csv", rows_of(8, hours=(0, 1))))
    border = f"disarray.instant_of({START_US + HOUR})"
    table_plant.rows(
        f"""
        insert into disarray.dirty_range (subject_key, range_start, range_end, reason, created_at)
        values ('C1', {border}, 'infinity', 'test', now()) returning 1
        """
    )
    table_plant.rows(
        f"update disarray.segment_summary set base_int = null where segment_us = {START_US + HOUR} returning 1"
    )
    found = table_plant.rows(
        f"select distinct event_at >= {border}, is_final, good_total is null, good_in_job is null, peak is null "
        "from telemetry.cells_running where event_at > '2026-10-01 00:30Z' order by 1"
    )
    assert found == [(False, True, False, False, False), (True, False, True, True, False)]
    assert [row["good_total"] is None for row in told(table_plant)] == [False] * 50 + [True] * 50


def test_edge_values_and_awkward_names_survive_bit_for_bit(tmp_path: Path, dsn: str) -> None:
    plant = Plant(tmp_path, dsn, description=EDGES)
    lines = [
        "1900-01-01T00:00:00.000001Z,,-9223372036854775808,5e-324,,1900-01-01T00:00:00Z,true",
        "1969-12-31T23:59:59.999999Z,ä,9223372036854775807,1.7976931348623157e308,NULL,1969-12-31T23:59:59.999999Z,false",
        '1970-01-01T00:00:00Z,"a,b",0,-0.0,"quote "" and \\.",,',
        "2026-02-29T12:00:00Z,x,1,1,rejected,,",
        "2026-03-01T12:00:00.1Z,\\N,,0.1,\\N,2026-03-01T12:00:00.000001Z,true",
        "2026-03-01T12:00:00.1Z,\\N,3,0.30000000000000004, spaced ,2199-12-31T23:59:59.999999Z,",
        "2199-12-31T23:59:59.999999Z,Ω😀,7,-1.5e-310,tab\there,,false",
    ]
    plant.ingest(plant.write("S/0.csv", "time,channel,n,user,position,seen,flag\n" + "\n".join(lines) + "\n"))
    in_table = told(plant, "S")
    assert len(in_table) == 6, plant.rows("select reason, detail, sample from disarray.rejected_row")
    plant.rows("update disarray.segment set table_digest = null returning 1")
    in_lake = told(plant, "S")
    assert repr(in_table) == repr(in_lake)
    names = plant.rows(
        """
        select attname::text from pg_attribute
        where attrelid = 'telemetry.order_running'::regclass and attnum > 0 order by attnum
        """
    )
    assert [name for (name,) in names] == [
        "subject_key", "event_at", "channel", "channel_column", "n", "user", "position_column", "seen", "flag",
        "user_total", "select", "is_final", "source_uri", "position", "ordinal",
    ]  # fmt: skip
    values = plant.rows('select "user", position_column, user_total, "select" from telemetry.order_running')
    assert len(values) == 6
    plant.pool.close()


def test_an_append_inserts_its_tail_alone(table_plant: Plant) -> None:
    rows = rows_of(5, hours=(0, 1))
    path = write(table_plant, "C1/0.csv", rows[:70])
    table_plant.ingest(path)
    before = versions(table_plant)
    write(table_plant, "C1/0.csv", rows)
    table_plant.ingest(path)
    after = versions(table_plant)
    assert len(before) == 70
    assert len(after) == len(rows)
    assert {key: after[key] for key in before} == before
    # What was staged on the way is gone.
    assert {path.suffix for path in table_plant.place.lake.root.rglob("*") if path.is_file()} == {".parquet"}
    assert list(table_plant.place.lake.root.glob("scratch-*")) == []


def test_a_late_file_writes_the_rows_of_its_segments_and_no_other(table_plant: Plant) -> None:
    rows = rows_of(6, hours=tuple(range(8)))
    late = [row for row in rows if START_US + 3 * HOUR <= row.at_us < START_US + 3 * HOUR + 20 * MINUTE]
    table_plant.ingest(write(table_plant, "C1/0.csv", [row for row in rows if row not in late]))
    before = versions(table_plant)
    table_plant.ingest(write(table_plant, "C1/late.csv", late))
    after = versions(table_plant)
    touched = START_US + 3 * HOUR
    assert {key: version for key, version in after.items() if key[0] != touched} == {
        key: version for key, version in before.items() if key[0] != touched
    }
    assert len(after) == len(before) + len(late)


def test_a_late_file_leaves_the_rows_to_the_left_of_it_alone(
    table_plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "_LEAST_BLOCK", 4)
    rows = sorted(rows_of(6, hours=(0,)), key=lambda row: row.at_us)
    early, late = rows[:30] + rows[35:], rows[30:35]
    table_plant.ingest(write(table_plant, "C1/0.csv", early))
    before = versions(table_plant)
    late_path = write(table_plant, "C1/late.csv", late)
    table_plant.ingest(late_path)
    after = versions(table_plant)
    kept = [key for key in after if before.get(key) == after[key]]
    assert (len(before), len(after), len(kept)) == (45, 50, 28)
    assert kept == sorted(after)[:28]
    with table_plant.pool.connection() as connection:
        connection.execute("select disarray.blacklist_file(%s, 'C1', 'test', 'tester')", (str(late_path),))
    table_plant.drain()
    again = versions(table_plant)
    assert len(again) == 45
    assert [again[key] for key in kept] == [before[key] for key in kept]
    assert len(told(table_plant)) == 45


def test_rows_go_when_their_file_does_and_a_copy_that_takes_over_is_named(table_plant: Plant) -> None:
    rows = rows_of(7, hours=(0,))
    first = write(table_plant, "C1/a.csv", rows)
    table_plant.ingest(first)
    second = write(table_plant, "C1/b.csv", rows[:40])
    table_plant.ingest(second)
    sources = table_plant.rows(
        "select source_uri, count(*) from telemetry.cells_running group by 1 order by 1"
    )
    assert sources == [(str(first), 10), (str(second), 40)]
    for path in (first, second):
        with table_plant.pool.connection() as connection:
            connection.execute("select disarray.blacklist_file(%s, 'C1', 'test', 'tester')", (str(path),))
        table_plant.drain()
    assert table_plant.rows("select count(*) from telemetry.cells") == [(0,)]
    assert table_plant.rows("select count(*) from disarray.segment") == [(0,)]


def test_a_reader_that_polls_sees_only_whole_commits_and_never_waits(table_plant: Plant, dsn: str) -> None:
    rows = [row for row in rows_of(9, hours=tuple(range(6)), slots="a") if row.amps is not None]
    table_plant.ingest(write(table_plant, "C1/0.csv", rows[::2]))
    ended, seen, failures = threading.Event(), set(), []

    def poll() -> None:
        with connections.connect(dsn) as connection:
            # A reader that had to wait for a repair would fail.
            connection.execute("set lock_timeout = '20ms'")
            while not ended.is_set():
                row = connection.execute(
                    """
                    select count(*), sum(good), max(good_total) filter (where place = 1), bool_and(is_final)
                    from (
                        select *, row_number() over (order by event_at desc, ordinal desc) as place
                        from telemetry.cells_running where subject_key = 'C1'
                    ) as reading
                    """
                ).fetchone()
                assert row is not None
                seen.add(row[0])
                if row[1] != row[2] or not row[3]:
                    failures.append(row)

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for part in range(8):
            table_plant.ingest(write(table_plant, f"C1/late{part}.csv", rows[1::2][part::8]))
    finally:
        ended.set()
        reader.join()
    assert failures == []
    assert len(seen) > 1
    assert table_plant.rows("select count(*) from telemetry.cells") == [(len(rows),)]


def test_filters_on_subject_and_time_reach_the_index_and_leave_other_chunks_out(table_plant: Plant) -> None:
    chance = random.Random(10)
    for subject in ("C1", "C2"):
        hours = tuple(sorted(chance.sample(range(24 * 70), 14)))
        table_plant.ingest(write(table_plant, f"{subject}/0.csv", rows_of(11, hours=hours)))
    with table_plant.pool.connection() as connection:
        connection.execute("analyze")
        # A page of a few rows is rightly read whole; the question is whether the filters get through to the index.
        connection.execute("set enable_seqscan = off")
        plan = "\n".join(
            line
            for (line,) in connection.execute(
                """
                explain select event_at, charge, is_final from telemetry.cells_running
                where subject_key = 'C2' and event_at >= '2026-10-20Z' and event_at < '2026-10-21Z'
                """
            )
        )
        whole = "\n".join(
            line for (line,) in connection.execute("explain select amps from telemetry.cells_running")
        )
    parts = [
        line
        for line in plan.splitlines()
        if "chunk reading " in line or ("cells_y" in line and " reading " in line)
    ]
    assert len(parts) == 1, plan
    assert "Index Cond: ((subject_key = 'C2'::text) AND (event_at >= " in plan, plan
    assert "segment_summary_pkey" in plan
    # What is not asked for is not joined.
    assert "segment_summary" not in whole
    assert "metric_block" not in whole
    assert "dirty_range" not in whole


def test_a_reader_may_look_and_a_worker_may_add_and_nobody_may_do_more(table_plant: Plant, dsn: str) -> None:
    table_plant.ingest(write(table_plant, "C1/0.csv", rows_of(12, hours=(0,))))
    allowed = {}
    for role in ("agent", "worker", "operator", "reader"):
        with psycopg.connect(dsn, autocommit=True) as session:
            session.execute(sql.SQL("set role {}").format(sql.Identifier(f"disarray_{role}")))
            allowed[role] = {
                statement
                for statement in (
                    "select from telemetry.cells",
                    "select from telemetry.cells_running",
                    "insert into telemetry.cells default values",
                    "delete from telemetry.cells",
                    "truncate telemetry.cells",
                    "update telemetry.cells set ordinal = 0",
                    "create table telemetry.mine ()",
                    "drop table telemetry.cells",
                )
                if not _denied(session, statement)
            }
    looks = {"select from telemetry.cells", "select from telemetry.cells_running"}
    assert allowed == {
        "agent": set(),
        "worker": looks | {"insert into telemetry.cells default values"},
        "operator": looks,
        "reader": looks,
    }


def test_a_worker_that_has_no_more_than_its_role_fills_the_table(table_plant: Plant, dsn: str) -> None:
    name = f"worker_{os.getpid()}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(
            sql.SQL("create role {} login password 'x' in role disarray_worker").format(sql.Identifier(name))
        )
    try:
        pool = connections.open_pool(psycopg.conninfo.make_conninfo(dsn, user=name, password="x"))
        table_plant.place = replace(table_plant.place, pool=pool)
        rows = rows_of(13, hours=(0, 24 * 40))
        table_plant.ingest(write(table_plant, "C1/0.csv", rows))
        pool.close()
        assert len(shown(table_plant)) == len(rows)
    finally:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def test_subjects_of_one_batch_commit_side_by_side(table_plant: Plant) -> None:
    paths = [write(table_plant, f"C{number}/0.csv", rows_of(number, hours=(0, 1))) for number in range(12)]
    [report] = table_plant.ingest(*paths)
    assert len(report.completed) == 12
    assert table_plant.rows("select count(distinct subject_key), count(*) from telemetry.cells") == [
        (12, 1200)
    ]


def test_a_table_with_other_types_is_never_copied_into(table_plant: Plant) -> None:
    with table_plant.pool.connection() as connection:
        connection.execute("drop view telemetry.cells_running")
        connection.execute("alter table telemetry.cells alter column amps type bigint")
    [report] = table_plant.ingest(write(table_plant, "C1/0.csv", rows_of(14, hours=(0,))))
    [failure] = report.failed.values()
    assert "has not the columns of dataset 'cells': amps differ. Nothing was written" in failure
    assert table_plant.rows("select count(*) from disarray.segment") == [(0,)]


def test_a_new_metric_adds_its_column_and_a_changed_kind_starts_it_anew(table_plant: Plant) -> None:
    table_plant.ingest(write(table_plant, "C1/0.csv", rows_of(15, hours=(0,))))
    dataset = table_plant.datasets["cells"]
    total = next(metric for metric in dataset.metrics if metric.name == "good_total")
    with table_plant.pool.connection() as connection:
        register(connection, replace(dataset, metrics=(*dataset.metrics, replace(total, name="more"))))
    assert table_plant.rows("select count(good_total), count(more) from telemetry.cells_running") == [(50, 0)]
    lowest = replace(total, kind=type(total.kind)("min"))
    with table_plant.pool.connection() as connection:
        register(connection, replace(dataset, metrics=(lowest,)))
    assert table_plant.rows("select count(_local_good_total), count(amps) from telemetry.cells") != [(50, 50)]
    # What is no longer declared stays in the table, and leaves the view.
    assert table_plant.rows("select count(_local_charge) > 0 from telemetry.cells") == [(True,)]
    with pytest.raises(psycopg.errors.UndefinedColumn):
        table_plant.rows("select charge from telemetry.cells_running")


def test_names_that_would_meet_are_refused_and_long_ones_are_told_apart(table_plant: Plant) -> None:
    dataset = table_plant.datasets["cells"]
    with table_plant.pool.connection() as connection, pytest.raises(InvalidRequestError, match="is taken"):
        readings.provision_readings(connection, replace(dataset, name="cells_running"))
    long = "a" * 63
    with table_plant.pool.connection() as connection:
        assert readings.provision_readings(connection, replace(dataset, name=long)) is Store.TIMESCALE
        assert readings.prepare_months(connection, long, [0, 40 * 24 * HOUR]) in (0, 2)
    assert len(readings_table(replace(dataset, name=long)).running) == 63
    assert identifier("a" * 70) != identifier("a" * 71)


def test_a_configuration_that_names_another_store_is_told_what_to_run(lake_plant: Plant) -> None:
    lake_plant.ingest(write(lake_plant, "C1/0.csv", rows_of(16, hours=(0,))))
    other = replace(lake_plant.datasets["cells"], store=Store.TIMESCALE)
    with (
        lake_plant.pool.connection() as connection,
        pytest.raises(StoreMismatchError, match="disarray store copy cells --to timescale"),
    ):
        register(connection, other)
    assert lake_plant.rows("select to_regclass('telemetry.cells')") == [(None,)]


def _denied(session: psycopg.Connection[Any], statement: str) -> bool:
    try:
        with session.transaction(force_rollback=True):
            session.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege:
        return True
    except psycopg.Error:
        return False
    return False


def test_readings_that_are_no_longer_kept_leave_the_table_and_their_ends_stay(
    tmp_path: Path, dsn: str
) -> None:
    description = in_store(DATASET, "timescale").replace("[[dataset]]\n", '[[dataset]]\nretain = "1 d"\n')
    plant = Plant(tmp_path, dsn, description=description)
    rows = rows_of(17, hours=(0, 1, 60))
    plant.ingest(write(plant, "C1/0.csv", rows))
    before = told(plant)[-1]
    plant.keep_house()
    assert plant.rows("select distinct _segment_us from telemetry.cells") == [(START_US + 60 * HOUR,)]
    assert told(plant)[-1] == before
    assert plant.rows("select count(*) from disarray.segment where table_digest is null") == [(2,)]
    with plant.pool.connection() as connection:
        assert readings.list_copies(connection, "cells") == []
    plant.pool.close()
