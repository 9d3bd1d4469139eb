"""Rows that follow a commit: the same bits as in one document, a bounded amount held, all or nothing."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from disarray.control import commits
from disarray.control.commits import SubjectCommit
from disarray.control.records import Records
from disarray.control.translation import translated_errors
from disarray.engine.jobs import scan_job
from disarray.errors import InvalidRequestError
from disarray.kernels.scanning import rollup_blocks
from disarray.store import staging
from disarray.worker.passes import portions, rows
from tests.arrivals import DESCRIPTION, Arrivals, differences, stored
from tests.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

CHANNELS, HOURS = 12, 30
DATASET = """
[[dataset]]
name = "rig"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 d"
key = []
channel = "sensor"
[dataset.columns.sensor]
type = "string"
[dataset.columns.volts]
type = "float64"
[dataset.metrics.total]
kind = "sum"
input = "volts"
[dataset.rollups.hourly]
bucket = "1 hour"
[dataset.rollups.hourly.aggregates]
n = "count"
mean = { function = "avg", input = "volts" }
low = { function = "min", input = "volts" }
spread = { function = "stddev", input = "volts" }
"""


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so low that the smallest commit is streamed, in several statements, and files come one by one."""
    monkeypatch.setattr(scan_job, "INLINE_ROWS", 3)
    monkeypatch.setattr(staging, "_BATCH_SUMMARIES", 4)
    monkeypatch.setattr(rollup_blocks, "BLOCK_PARTS", 4)
    monkeypatch.setattr(rows, "STATEMENT_BYTES", 1000)
    monkeypatch.setattr(portions, "COMMIT_ROWS", 30)
    monkeypatch.setattr(portions, "PARTS_A_ROW", 1)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory, shared_dsn: str) -> Iterator[Plant]:
    """One plant for all histories."""
    built = Plant(tmp_path_factory.mktemp("plant"), shared_dsn, description=DESCRIPTION)
    yield built
    built.pool.close()


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    built = Plant(tmp_path, dsn, description=DATASET)
    yield built
    built.pool.close()


def day(number: int, *, factor: float = 1.0) -> str:
    lines = [
        f"2026-01-{1 + number + hour // 24:02d}T{hour % 24:02d}:05:00Z,s{sensor},{(hour + sensor / 7) * factor}\n"
        for hour in range(24)
        for sensor in range(CHANNELS)
    ]
    return "time,sensor,volts\n" + "".join(lines)


@settings(
    deadline=None,
    max_examples=5,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_any_history_in_streamed_commits_gives_the_numbers_of_a_loop_over_what_was_accepted(
    histories: Plant, limits: None, seed: int
) -> None:
    histories.forget_everything()
    histories.place = replace(histories.place, max_shift_rows=[0, 20, 100_000][seed % 3])
    arrivals = Arrivals(histories, random.Random(seed))
    arrivals.run()
    assert differences(stored(histories), arrivals.expected()) == []
    arrivals.settle()
    assert differences(stored(histories), arrivals.expected()) == []
    assert histories.rows("select count(*) from disarray.dirty_range where resolved_at is null") == [(0,)]


def test_a_commit_of_many_rows_is_streamed_and_the_driver_holds_a_statement_of_them(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_job, "INLINE_ROWS", 100)
    monkeypatch.setattr(staging, "_BATCH_SUMMARIES", 50)
    monkeypatch.setattr(rollup_blocks, "BLOCK_PARTS", 50)
    monkeypatch.setattr(rows, "STATEMENT_BYTES", 5_000)
    sent: list[int] = []
    put_rows = commits.put_rows

    def noted(*arguments: object) -> None:
        put_rows(*arguments)  # type: ignore[arg-type]
        sent.append(0)
        for records in arguments[-2:]:
            assert isinstance(records, Records)
            sent[-1] += sum(map(len, records.pieces))

    monkeypatch.setattr(commits, "put_rows", noted)
    paths = [plant.write(f"R1/{number}.csv", day(number)) for number in range(4)]
    [report] = plant.ingest(*paths)
    rollup_rows = 4 * 24 * CHANNELS * 4
    assert plant.rows("select count(*) from disarray.rollup") == [(rollup_rows,)]
    [committed] = report.committed
    assert committed.change.segments_changed == 4
    # A statement is full when a batch makes it so: it exceeds the limit by one batch at most.
    assert len(sent) > 20
    assert max(sent) < 5_000 + 50 * 300
    streamed = plant.derived()
    assert list((plant.place.lake.root).glob("scratch-*")) == []

    monkeypatch.undo()
    plant.forget_everything()
    plant.ingest(*paths)
    assert plant.derived() == streamed


def test_a_streamed_commit_that_breaks_off_shows_nothing_and_is_done_again(
    plant: Plant, limits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = plant.write("R1/0.csv", day(0))
    plant.ingest(first)
    before = plant.derived()
    put_rows = commits.put_rows
    calls: list[int] = []

    def breaks_off(*arguments: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise InvalidRequestError("a test")
        put_rows(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(commits, "put_rows", breaks_off)
    first.write_text(day(0, factor=2.0))
    [report] = plant.ingest(first)
    assert len(report.failed) == 1
    assert plant.derived() == before
    plant.rows("update disarray.ingest_queue set available_at = disarray.clock() returning 1")
    plant.rows("update disarray.subject set live_turn_at = disarray.clock() returning 1")
    plant.drain()
    assert plant.derived() != before


def test_rows_are_put_only_inside_the_transaction_of_their_commit(plant: Plant) -> None:
    plant.ingest(plant.write("R1/0.csv", day(0)))
    [(run_id,)] = plant.rows("select run_id from disarray.run")
    with plant.pool.connection() as connection:
        for call in (
            "select disarray.put_rows(%s, 'R1', 'rig', '{}', '{}')",
            "select disarray.finish_commit(%s, 'R1', 0, '{}', '[]')",
        ):
            with pytest.raises(Exception, match="commits nothing about 'R1' in this transaction"):
                connection.execute(call, (run_id,))


def daily(plant: Plant, days: int) -> list[Path]:
    return [plant.write(f"R1/{number}.csv", day(number)) for number in range(days)]


def test_files_that_make_too_many_rows_together_are_committed_a_few_at_a_time(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A day makes 1,152 rollup parts and twelve summaries; one bucket more is allowed for.
    monkeypatch.setattr(portions, "COMMIT_ROWS", 2 * 1300)
    monkeypatch.setattr(portions, "PARTS_A_ROW", 1)
    paths = daily(plant, 5)
    [report] = plant.ingest(*reversed(paths))
    assert len(report.completed) == 5
    # What ends first comes first: each commit continues the one before it.
    added = [sorted({each.source_uri for each in plan.changes.added}) for plan in report.plans]
    assert added == [[str(path) for path in paths[start : start + 2]] for start in (0, 2, 4)]
    assert plant.rows("select count(distinct run_id), count(*) from disarray.run") == [(3, 3)]
    assert plant.rows("select count(*) from disarray.restatement") == [(0,)]
    cut = plant.derived()

    monkeypatch.undo()
    plant.forget_everything()
    plant.ingest(*paths)
    assert plant.rows("select count(*) from disarray.run") == [(1,)]
    assert plant.derived() == cut


def test_a_part_that_is_committed_makes_no_later_part_of_its_pass_too_late(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "COMMIT_ROWS", 1300)
    monkeypatch.setattr(portions, "PARTS_A_ROW", 1)
    plant = Plant(tmp_path, dsn, description=DATASET.replace("key = []", 'key = []\nhorizon = "1 d"'))
    try:
        whole = plant.write("R1/whole.csv", day(0) + "".join(day(6).splitlines(keepends=True)[1:]))
        plant.ingest(plant.write("R1/0.csv", day(5)), whole)
        assert plant.rows("select count(*) from disarray.run") == [(2,)]
        assert plant.rows("select distinct state::text from disarray.fragment") == [("active",)]
    finally:
        plant.pool.close()


def test_what_an_error_leaves_undone_is_tried_again_without_what_is_committed(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "COMMIT_ROWS", 1300)
    monkeypatch.setattr(portions, "PARTS_A_ROW", 1)
    monkeypatch.setattr(scan_job, "INLINE_ROWS", 0)
    paths = daily(plant, 3)
    spoiled = commits.put_rows

    def spoils_one_day(*arguments: object) -> None:
        commit = arguments[1]
        assert isinstance(commit, SubjectCommit)
        if str(paths[1]) in commit.fingerprints:
            raise InvalidRequestError("a test")
        spoiled(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(commits, "put_rows", spoils_one_day)
    [report] = plant.ingest(*paths)
    assert len(report.completed) == 2
    assert list(report.failed.values()) == ["InvalidRequestError: a test"]
    assert report.lost_subjects == ()
    # The first day was read once: it is not tried again with the others.
    assert plant.rows("select sum(files_read) from disarray.figure") == [(2,)]


@pytest.mark.parametrize("limit", ["idle_in_transaction_session_timeout", "statement_timeout"])
def test_work_that_always_takes_too_long_ends_as_a_dead_letter_with_the_true_reason(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    monkeypatch.setattr(scan_job, "INLINE_ROWS", 0)
    slow, good = plant.write("R1/0.csv", day(0)), plant.write("R1/1.csv", day(1))
    put_rows = commits.put_rows

    def takes_too_long(*arguments: object) -> None:
        connection, commit = arguments[:2]
        assert isinstance(connection, psycopg.Connection)
        assert isinstance(commit, SubjectCommit)
        if str(slow) in commit.fingerprints:
            connection.execute(f"set local {limit} = 1".encode())
            # Ends when the server does what it was told: there is no time to be waited for.
            with translated_errors():
                if limit == "statement_timeout":
                    connection.execute("select pg_sleep(60)")
                while connection.execute("select 1"):
                    time.sleep(0.05)
        put_rows(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(commits, "put_rows", takes_too_long)
    reports = plant.ingest(slow, good)
    # Once it is tried again as it was; then each file alone.
    assert "took too long" in caplog.text
    assert "is away" not in caplog.text
    assert plant.rows("select source_uri from disarray.file_fingerprint") == [(str(good),)]
    for _ in range(5):
        plant.rows("update disarray.ingest_queue set available_at = disarray.clock() returning 1")
        plant.rows("update disarray.subject set live_turn_at = disarray.clock() returning 1")
        reports += plant.drain()
    assert plant.rows("select count(*) from disarray.ingest_queue") == [(0,)]
    [(status, message)] = plant.rows(
        f"select status::text, metadata ->> 'message' from disarray.file_info where source_uri = '{slow}'"
    )
    assert status == "failed"
    told = "idle-in-transaction" if limit.startswith("idle") else "statement timeout"
    assert told in str(message) or any(told in text for report in reports for text in report.failed.values())


@pytest.mark.parametrize("store", ["lake", "timescale"])
def test_a_rebuild_in_streamed_commits_gives_what_a_plant_has_that_never_knew_another_definition(
    tmp_path: Path, dsn: str, limits: None, store: str
) -> None:
    former = DATASET.replace("key = []", f'key = []\nstore = "{store}"')
    plant = Plant(tmp_path, dsn, description=former)
    try:
        plant.ingest(*daily(plant, 3))
        anew = former.replace('kind = "sum"', 'kind = "max"').replace(
            'bucket = "1 hour"', 'bucket = "2 hour"'
        )
        plant.redefine(anew, is_on_purpose=True)
        plant.drain()
        assert plant.rows("select count(distinct scan_version) from disarray.segment") == [(1,)]
        rebuilt = plant.derived()
        assert plant.rows("select count(*) from disarray.rollup") == [(3 * 12 * CHANNELS * 4,)]
        plant.forget_everything()
        plant.ingest(*daily(plant, 3))
        assert plant.derived() == rebuilt
    finally:
        plant.pool.close()


def test_a_commit_whose_rows_take_longer_than_the_lease_is_nobody_elses_to_make(
    plant: Plant, limits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_rows = commits.put_rows

    def takes_its_time(*arguments: object) -> None:
        connection = arguments[0]
        assert isinstance(connection, psycopg.Connection)
        put_rows(*arguments)  # type: ignore[arg-type]
        connection.execute("update disarray.subject_lock set lease_expires_at = disarray.clock()")

    monkeypatch.setattr(commits, "put_rows", takes_its_time)
    [report] = plant.ingest(plant.write("R1/0.csv", day(0)))
    assert len(report.completed) == 1
    assert plant.rows("select count(*) from disarray.rollup") == [(24 * CHANNELS * 4,)]
    assert plant.rows("select count(*) from disarray.segment_metric where base_float is null") == [(0,)]


def test_commits_one_after_the_other_that_each_take_most_of_a_lease_keep_it(
    plant: Plant, limits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_commit = commits.commit_subject

    def takes_four_minutes(*arguments: object, **named: object) -> object:
        changes = begin_commit(*arguments, **named)  # type: ignore[arg-type]
        connection = arguments[0]
        assert isinstance(connection, psycopg.Connection)
        # Of five: no heartbeat can renew a lease whose row a commit holds.
        connection.execute("update disarray.test_clock set ahead = ahead + interval '4 minutes'")
        return changes

    monkeypatch.setattr(commits, "commit_subject", takes_four_minutes)
    reports = plant.ingest(*(plant.write(f"R1/{number}.csv", day(number)) for number in range(3)))
    assert [len(report.completed) for report in reports] == [3]
    assert plant.rows("select count(*) from disarray.run") == [(3,)]
    assert plant.rows("select retry_count from disarray.ingest_queue") == []
