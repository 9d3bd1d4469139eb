"""Table sources from the table to the numbers: what is new comes once, what cannot be read is told, nothing is lost."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from disarray.control import instances
from disarray.errors import (
    ConfigError,
    LeaseLostError,
    SourceAccessError,
    SourceError,
    SourceKeyError,
    SourceLayoutError,
    SourceReplacedError,
    SourceTimeoutError,
    SourceUnavailableError,
)
from disarray.model.breaker import Breaker
from disarray.model.description.table_source import SourceUrl, UrlOrigin
from disarray.sources import table_pages
from disarray.sources.buffered_extract import before
from disarray.sources.table_columns import read_layout
from disarray.sources.table_session import _patient, open_session
from disarray.sources.table_trial import Choices, try_table
from disarray.worker.process.pulling import SourcePuller, pull_all
from tests.processes import eventually
from tests.sources.table_history import READER, Reader, described, make_table, reader_url
from tests.sources.table_plant import TablePlant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def plant(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TablePlant]:
    monkeypatch.setenv("HISTORIAN_URL", reader_url(dsn))
    make_table(dsn)
    built = TablePlant(tmp_path, dsn)
    yield built
    built.pool.close()


@pytest.fixture
def admin(plant: TablePlant) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(plant.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def reader(plant: TablePlant) -> Iterator[Callable[..., Reader]]:
    made: list[Reader] = []

    def make(watermark: str, **more: object) -> Reader:
        made.append(Reader(*described(plant.root, watermark, **more)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_rows_become_readings_and_a_row_that_changes_counts_once(plant: TablePlant) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0), (2, "2026-03-02T12:01Z", 20.0))
    assert plant.pull() == 2
    plant.drain()
    assert plant.total() == 30.0
    plant.execute("update public.readings set watts = 15, updated_at = now() where id = 1")
    assert plant.pull() == 1
    plant.drain()
    assert plant.total() == 35.0


def test_a_pull_without_news_delivers_and_queues_nothing(plant: TablePlant) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0))
    plant.pull()
    plant.drain()
    before_ = plant.rows("select count(*) from disarray.delivery_batch"), plant.derived()
    assert plant.pull() == 0
    assert plant.rows("select * from disarray.ingest_queue") == []
    assert (plant.rows("select count(*) from disarray.delivery_batch"), plant.derived()) == before_


def test_a_late_row_repairs_and_is_in_the_ledger_with_its_source_and_cursor(plant: TablePlant) -> None:
    plant.insert((1, "2026-03-01T12:00Z", 10.0), (2, "2026-03-23T12:00Z", 20.0))
    plant.pull()
    plant.drain()
    plant.insert((3, "2026-03-02T12:00Z", 5.0))
    assert plant.pull() == 1
    plant.drain()
    assert plant.total() == 35.0
    [(uri,)] = plant.rows(
        """
        select distinct unnest(source_uris) from disarray.restatement
        except select source_uri from disarray.delivery where batch_no = (select min(batch_no) from disarray.delivery)
        """
    )
    [(source, cursor)] = plant.rows(
        f"""
        select source_name, cursor_to from disarray.delivery_batch
        join disarray.delivery using (batch_no) where source_uri = '{uri}'
        """
    )
    assert source == "historian"
    assert str(cursor).startswith("20")


def test_two_workers_on_one_source_take_turns(plant: TablePlant) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0))
    [source] = plant.place.sources
    batches = plant.puller.pull(source)
    assert next(batches).counts.taken == 1
    with plant.pool.connection() as connection:
        other = replace(plant.puller, holder=instances.register_instance(connection, "Worker02"))
    assert list(other.pull(source, is_asked_for=True)) == []
    batches.close()  # the first gives its turn back
    plant.insert((2, "2026-03-02T12:01Z", 20.0))
    assert [each.counts.taken for each in other.pull(source)] == [1]


def test_the_worker_pulls_by_itself_when_a_source_is_due(plant: TablePlant) -> None:
    plant.place = replace(plant.place, sources=(replace(plant.place.sources[0], every_us=100_000),))
    delivered = threading.Event()
    stop = threading.Event()
    thread = threading.Thread(
        target=SourcePuller(plant.puller, Breaker("the database"), delivered.set).run, args=(stop,)
    )
    thread.start()
    try:
        plant.insert((1, "2026-03-02T12:00Z", 10.0))
        assert delivered.wait(60)
        plant.execute(f"revoke select on public.readings from {READER}")
        eventually(lambda: plant.state().failure_count > 0, seconds=60)
    finally:
        stop.set()
        thread.join()
    assert plant.state().rows_taken == 1
    assert plant.state().held_by is None


def test_a_row_of_a_savepoint_that_commits_late_is_taken(
    plant: TablePlant, admin: psycopg.Connection[Any], reader: Callable[..., Reader]
) -> None:
    # The number of the savepoint lies below what the snapshot calls the next, and is in no list of open ones.
    for watermark in ("timestamp", "sequence", "snapshot"):
        admin.execute("truncate public.readings")
        taking = reader(watermark)
        with psycopg.connect(plant.dsn) as slow:
            add = "insert into public.readings (id, tool, at, watts) values (%s, 'TOOL07', now(), 1)"
            slow.execute(add, (1,))
            slow.execute("savepoint inner_one")
            slow.execute(add, (2,))
            slow.execute("release savepoint inner_one")
            admin.execute(add, (3,))
            for _ in range(3):
                taking.extract()
            assert [key for key, _ in taking.taken] == [3]
            slow.commit()
        taking.extract()
        assert sorted(key for key, _ in taking.taken) == [1, 2, 3]


def test_many_rows_with_one_stamp_neither_loop_nor_are_skipped(
    plant: TablePlant, admin: psycopg.Connection[Any], reader: Callable[..., Reader]
) -> None:
    admin.execute(
        """
        insert into public.readings (id, tool, at, watts, updated_at)
        select n, 'TOOL07', '2026-03-02', n, '2026-03-02' from generate_series(1, 1000) as n
        """
    )
    for watermark in ("timestamp", "snapshot", "buffer"):
        taking = reader(watermark, limit=130)
        extracts = 1
        while not taking.extract():
            extracts += 1
            assert extracts < 12
        assert sorted(key for key, _ in taking.taken) == list(range(1, 1001))


def test_a_numeric_key_is_read_in_the_order_of_its_numbers_and_by_its_index(
    plant: TablePlant, admin: psycopg.Connection[Any], reader: Callable[..., Reader]
) -> None:
    admin.execute(
        """
        alter table public.readings alter id type numeric;
        insert into public.readings (id, tool, at, watts, updated_at)
        select n, 'TOOL07', '2026-03-02', n, '2026-03-02' from generate_series(1, 1000) as n;
        """
    )
    for watermark in ("timestamp", "snapshot"):
        taking = reader(watermark, limit=130)
        while not taking.extract():
            pass
        assert sorted(int(key) for key, _ in taking.taken) == list(range(1, 1001))
    with open_session(taking.source.url, source_name="historian", timeout_us=60_000_000) as session:
        trial = try_table(
            session,
            taking.source.url,
            "public.readings",
            Choices(name="historian"),
            landing=PurePath("landing"),
        )
    assert any("Index Scan using readings_updated_at_id_idx" in line for line in trial.plan)
    assert len(trial.rows) == 10
    assert trial.warnings == []
    assert 'watermark = "timestamp"' in trial.blocks


def test_a_table_without_an_index_is_warned_of(plant: TablePlant, admin: psycopg.Connection[Any]) -> None:
    admin.execute("drop index public.readings_updated_at_id_idx")
    url = plant.place.sources[0].url
    with open_session(url, source_name="historian", timeout_us=60_000_000) as session:
        trial = try_table(
            session, url, "public.readings", Choices(name="historian"), landing=PurePath("landing")
        )
    assert "An index on (updated_at, id) helps" in trial.warnings[0]


def test_an_extract_that_hit_its_limit_leaves_the_rest_under_the_older_snapshot(
    plant: TablePlant, admin: psycopg.Connection[Any], reader: Callable[..., Reader]
) -> None:
    add = "insert into public.readings (id, tool, at, watts, updated_at) values (%s, 'TOOL07', now(), 1, %s)"
    taking = reader("timestamp", limit=2)
    with psycopg.connect(plant.dsn) as slow:  # nothing settles while it is open
        slow.execute(add, (9, "2026-03-09"))
        for number in (1, 5):
            admin.execute(add, (number, f"2026-03-0{number}"))
        assert not taking.extract()
        assert taking.extract()
        for number in (2, 3, 6):
            admin.execute(add, (number, f"2026-03-0{number}"))
        assert not taking.extract()
        slow.commit()
    while not taking.extract():
        pass
    assert sorted(key for key, _ in taking.taken) == [1, 2, 3, 5, 6, 9]


def test_now_takes_what_commits_after_now_also_if_it_was_written_before(
    plant: TablePlant, admin: psycopg.Connection[Any], reader: Callable[..., Reader]
) -> None:
    add = "insert into public.readings (id, tool, at, watts) values (%s, 'TOOL07', now(), 1)"
    for watermark in ("timestamp", "sequence", "snapshot"):
        admin.execute("truncate public.readings")
        admin.execute(add, (1,))
        taking = reader(watermark, at="now")
        with psycopg.connect(plant.dsn) as slow:
            slow.execute(add, (2,))
            taking.extract()
            admin.execute(add, (3,))
            slow.commit()
        taking.extract()
        assert sorted(key for key, _ in taking.taken) == [2, 3]


def test_a_value_says_where_to_begin(
    plant: TablePlant, admin: psycopg.Connection[Any], reader: Callable[..., Reader]
) -> None:
    for number in (1, 2, 3):
        admin.execute(
            "insert into public.readings (id, tool, at, watts, updated_at) values (%s, 'T', now(), 1, %s)",
            (number, f"2026-03-0{number}"),
        )
    taking = reader("timestamp", at="2026-03-02T00:00:00Z")
    taking.extract()
    assert [key for key, _ in taking.taken] == [3]


def test_another_server_behind_the_url_stops_the_source(
    plant: TablePlant, reader: Callable[..., Reader]
) -> None:
    taking = reader("sequence")
    taking.extract()
    assert taking.watermark is not None
    taking.watermark["server"] = "1/1"
    with pytest.raises(SourceReplacedError, match="source reset"):
        taking.extract()


@pytest.mark.parametrize("watermark", ["timestamp", "sequence"])
def test_a_query_is_read_with_a_buffer_and_says_so_once(
    plant: TablePlant, watermark: str, reader: Callable[..., Reader]
) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0))
    taking = reader(watermark)
    taking.source = replace(taking.source, table=None, query="select * from public.readings where watts > 0")
    if watermark == "sequence":
        with pytest.raises(SourceLayoutError, match="how many numbers before the greatest are read again"):
            taking.extract()
        taking.source = replace(taking.source, buffer=1000, has_counted_buffer=True)
    for _ in range(3):
        taking.extract()
    assert taking.taken == [(1, 10.0)]
    plant.insert((2, "2026-03-02T12:00Z", 11.0))
    taking.extract()
    assert len(taking.taken) == 2
    [notice] = taking.notices
    assert "not exact" in notice


def test_a_column_that_is_gone_or_changed_stops_the_source_and_an_added_one_is_noted_once(
    plant: TablePlant,
) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0))
    plant.pull()
    plant.execute("alter table public.readings add humidity float8")
    plant.insert((2, "2026-03-02T12:01Z", 20.0))
    assert plant.pull() == 1
    plant.pull()
    assert [notice for notice in plant.state().notices if "humidity" in notice] == plant.state().notices
    plant.insert((3, "2026-03-02T12:02Z", 30.0))
    plant.execute("alter table public.readings alter watts type text")
    with pytest.raises(SourceLayoutError, match="watts was of type float8 and is of type text"):
        plant.pull()
    plant.execute("alter table public.readings rename watts to power")
    with pytest.raises(SourceLayoutError, match="watts"):
        plant.pull()
    known = plant.state()
    assert (known.rows_taken, known.failure_count) == (2, 2)
    plant.execute("alter table public.readings rename power to watts")
    plant.execute("alter table public.readings alter watts type float8 using watts::float8")
    # The table was written anew, so its rows come once more: none is lost.
    assert plant.pull() >= 1
    plant.drain()
    assert plant.total() == 60.0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (
            "alter table public.readings alter watts type float8[] using array[watts]",
            SourceLayoutError,
            "watts.*array",
        ),
        (
            "alter table public.readings alter watts type jsonb using to_jsonb(watts)",
            SourceLayoutError,
            "watts.*jsonb",
        ),
        ("alter table public.readings alter updated_at type text", SourceLayoutError, "updated_at.*text"),
        (
            "alter table public.readings alter updated_at drop not null; update public.readings set updated_at = null",
            SourceKeyError,
            "NULL",
        ),
        ("update public.readings set updated_at = 'infinity'", SourceKeyError, "9999"),
        (
            "alter table readings drop constraint readings_pkey; insert into readings select * from readings",
            SourceKeyError,
            "id = 1",
        ),
        (f"revoke select on public.readings from {READER}", SourceAccessError, "permission denied"),
        ("alter table public.readings rename to elsewhere", SourceLayoutError, "readings"),
    ],
)
def test_what_cannot_be_read_is_a_clear_error_and_nothing_is_taken(
    plant: TablePlant, change: str, error: type[SourceError], words: str
) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0))
    plant.execute(change)
    with pytest.raises(error, match=words) as told:
        plant.pull()
    assert "Nothing of this batch was taken" in str(told.value)
    known = plant.state()
    assert (known.rows_taken, known.failure_count, known.held_by) == (0, 1, None)
    assert known.last_error == str(told.value)


def test_values_that_no_reading_can_have_are_counted_and_the_rest_is_taken(plant: TablePlant) -> None:
    plant.execute("alter table public.readings alter watts type numeric")
    good = "(1, 'TOOL07', '2026-03-02T12:00Z', 10)"
    bad = [
        "(2, 'TOOL07', '2026-03-02T12:01Z', 'NaN')",
        "(3, 'TOOL07', '2026-03-02T12:02Z', 1e400)",
        "(4, 'TOOL07', '294276-12-31', 1)",
        "(5, 'TOOL07', 'infinity', 1)",
        "(6, null, '2026-03-02T12:03Z', 1)",
    ]
    plant.execute(f"insert into public.readings (id, tool, at, watts) values {', '.join([good, *bad])}")
    assert plant.pull() == 3
    known = plant.state()
    assert (known.rows_seen, known.rows_rejected) == (6, 3)
    assert "id = 4" in known.notices[0]
    plant.drain()
    assert plant.total() == 10.0
    assert plant.rows("select reason, count(*) from disarray.rejected_row group by 1") != []


def test_a_source_that_is_away_or_slow_is_tried_again_later_and_shows_no_password(
    plant: TablePlant, monkeypatch: pytest.MonkeyPatch, admin: psycopg.Connection[Any]
) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0))
    monkeypatch.setenv("HISTORIAN_URL", "postgresql://someone:s3cret@127.0.0.1:1/nowhere")
    with pytest.raises(SourceUnavailableError) as told:
        plant.pull()
    assert "s3cret" not in str(told.value)
    rows, failures = pull_all(plant.puller, threading.Event())
    assert rows == 0
    assert list(failures) == ["historian"]
    monkeypatch.setenv("HISTORIAN_URL", reader_url(plant.dsn))
    plant.place = replace(plant.place, sources=(replace(plant.place.sources[0], timeout_us=1_000_000),))
    with admin.transaction():
        admin.execute("lock table public.readings in access exclusive mode")
        with pytest.raises(SourceTimeoutError):
            plant.pull()
    assert plant.state().failure_count == 3
    assert plant.pull() == 1
    assert plant.state().last_error is None


def test_a_subject_that_the_database_does_not_take_is_rejected_alone(plant: TablePlant) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0))
    plant.execute(
        "insert into public.readings (id, tool, at, watts) values (2, repeat('器', 100), '2026-03-02T12:01Z', 1)"
    )
    assert plant.pull() == 1
    assert plant.state().rows_rejected == 1


def test_another_cursor_or_key_is_refused_until_the_source_is_reset(plant: TablePlant) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0))
    assert plant.pull() == 1
    [source] = plant.place.sources
    plant.insert((2, "2026-03-02T12:01Z", 20.0))
    for other in (replace(source, cursor="at"), replace(source, key=("id", "tool"))):
        plant.place = replace(plant.place, sources=(other,))
        with pytest.raises(ConfigError, match=r"changed since it was last read.*Nothing was taken"):
            plant.pull()
    plant.place = replace(plant.place, sources=(source,))
    assert plant.pull() == 1


def test_a_source_that_another_worker_reads_is_told_of(plant: TablePlant) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0))
    [source] = plant.place.sources
    batches = plant.puller.pull(source)
    next(batches)
    with plant.pool.connection() as connection:
        other = replace(plant.puller, holder=instances.register_instance(connection, "Worker02"))
    assert pull_all(other, threading.Event()) == (
        0,
        {"historian": "it is being read by Worker01: its newest rows may not be in yet"},
    )
    batches.close()
    assert pull_all(other, threading.Event()) == (0, {})


def test_a_turn_that_is_lost_on_the_way_is_an_error_and_not_silence(plant: TablePlant) -> None:
    plant.insert((1, "2026-03-02T12:00Z", 10.0))
    plant.insert((2, "2026-03-02T12:01Z", 20.0))
    [source] = plant.place.sources
    batches = plant.puller.pull(replace(source, limit=1), is_asked_for=True)
    next(batches)
    plant.execute("update disarray.source_state set lease_expires_at = disarray.clock() - interval '1 s'")
    with pytest.raises(LeaseLostError):
        list(batches)


def test_sqlite_is_read_with_a_buffer(
    plant: TablePlant, tmp_path: Path, reader: Callable[..., Reader]
) -> None:
    file = tmp_path / "bench.db"
    with sqlite3.connect(file) as bench:
        bench.execute(
            "create table readings (id integer primary key, tool text, at text, watts real, updated_at text)"
        )
        bench.executemany(
            "insert into readings values (?, 'TOOL07', ?, ?, ?)",
            [(n, f"2026-03-02T12:{n % 60:02d}:00Z", n, f"2026-03-02 12:00:{n % 60:02d}") for n in range(250)],
        )
    taking = reader("buffer", limit=100)
    url = SourceUrl(UrlOrigin.INLINE, f"sqlite://{file}")
    taking.source = replace(taking.source, url=url, table="readings", buffer=10_000_000)
    while not taking.extract():
        pass
    assert sorted(key for key, _ in taking.taken) == list(range(250))
    taking.extract()
    assert len(taking.taken) == 250
    with sqlite3.connect(file) as bench:
        bench.execute(
            "insert into readings values (999, 'TOOL07', '2026-03-02T13:00:00Z', 1, '2026-03-02 12:00:55')"
        )
    taking.extract()
    assert len(taking.taken) == 251


def test_what_lies_before_the_start_of_a_buffered_source_is_never_read(
    plant: TablePlant, tmp_path: Path, reader: Callable[..., Reader]
) -> None:
    file = tmp_path / "bench.db"
    with sqlite3.connect(file) as bench:
        bench.execute("create table readings (id integer primary key, tool text, at text, watts real)")
        row = "insert into readings values (?, 'TOOL07', '2026-03-02T12:00:00Z', 1)"
        bench.execute(row, (50,))
        bench.commit()
        taking = reader("buffer", limit=100)
        url = SourceUrl(UrlOrigin.INLINE, f"sqlite://{file}")
        taking.source = replace(taking.source, url=url, table="readings", cursor="id", at=100)
        bench.execute(row, (120,))
        bench.commit()
        with pytest.raises(SourceLayoutError, match="buffer = 1000"):
            taking.extract()
        taking.close()
        bench.execute("delete from readings where id = 120")
        bench.commit()
        taking.source = replace(taking.source, buffer=1000, has_counted_buffer=True)
        # The first extract finds nothing; the later ones come into the buffer, which reaches behind the start.
        taking.extract()
        for number in (60, 150, 160):
            bench.execute(row, (number,))
            bench.commit()
            taking.extract()
    assert [key for key, _ in taking.taken] == [150, 160]
    with open_session(url, source_name="historian", timeout_us=60_000_000) as session:
        choices = Choices(name="historian", cursor="id", event_time="at")
        trial = try_table(session, url, "readings", choices, landing=PurePath("landing"))
    assert "buffer = 1000" in trial.blocks


def test_a_page_of_wide_rows_has_fewer_of_them(plant: TablePlant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant.execute(
        "insert into public.readings (id, tool, at, watts) "
        "select n, repeat('x', 1000), now(), n from generate_series(1, 300) as n"
    )
    monkeypatch.setattr(table_pages, "_FIRST_ROWS", 10)
    monkeypatch.setattr(table_pages, "_PAGE_BYTES", 50_000)
    [source] = plant.place.sources
    [dataset] = plant.datasets.values()
    with open_session(source.url, source_name="historian", timeout_us=source.timeout_us) as session:
        layout = read_layout(session, source, dataset)
        table = table_pages.PagedTable(session, source, layout, has_transactions=False)
        pages = [page for page, _ in table.pages(None, None)]
    assert sum(page.num_rows for page in pages) == 300
    assert max(page.nbytes for page in pages) <= 50_000
    assert len(pages) < 10


@pytest.mark.parametrize(
    "dsn", ["host=historian user=u", "postgresql://u@historian/db", "postgresql://h/d?a=b"]
)
def test_a_host_that_says_nothing_is_given_up_unless_the_url_says_otherwise(dsn: str) -> None:
    patient = conninfo_to_dict(_patient(dsn.replace("?a=b", "?sslmode=prefer")))
    assert (patient["connect_timeout"], patient["tcp_user_timeout"]) == ("10", "40000")
    assert _patient(f"{patient['host']} connect_timeout=3").count("connect_timeout") == 1


@pytest.mark.parametrize(
    ("value", "earlier"),
    [
        ("2026-03-02 12:00:10", "2026-03-02 12:00:00"),
        ("2026-03-02T12:00:10.250Z", "2026-03-02T12:00:00.250Z"),
        ("2026-03-02 12:00:10.000001+01:00", "2026-03-02 12:00:00.000001+01:00"),
        (10_000_007, 7),
    ],
)
def test_a_cursor_less_the_buffer_is_written_as_the_cursor_is(value: str | int, earlier: str | int) -> None:
    assert before(value, 10_000_000) == earlier
