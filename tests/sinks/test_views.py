"""Materialized views: made as declared, refreshed when something changed, and never in a reader's way."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from disarray.cli.support import worker_services
from disarray.config import load
from disarray.control import connections, views
from disarray.errors import ConfigError, LeaseLostError, SpecError, UnknownNameError, ViewError
from disarray.sinks.views import ViewChange, ViewRefresher, drop_view, load_views, plan_view
from disarray.worker.process.scheduler import Scheduler
from disarray.worker.process.settings import worker_settings
from tests.forked import live
from tests.processes import eventually
from tests.sinks.refreshing_process import refresh_due
from tests.sinks.view_plant import COUNTS, ViewPlant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

VIEWS = ("view.claimed", "view.begun", "view.refreshed", "view.recorded", "view.committed")


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[ViewPlant]:
    built = ViewPlant(tmp_path, dsn)
    yield built
    built.pool.close()


@pytest.fixture
def viewed(plant: ViewPlant) -> ViewPlant:
    """One view over fifty readings."""
    plant.add_file(0)
    plant.declare()
    assert [plan.change for plan in plant.apply()] == [ViewChange.CREATE]
    return plant


def test_a_view_is_filled_when_it_is_applied_and_refreshed_when_something_was_committed(
    viewed: ViewPlant,
) -> None:
    assert viewed.counted() == {"C1": 50}
    assert viewed.refresh() == []
    viewed.add_file(1)
    viewed.add_file(2, subject="C2")
    [done] = viewed.refresh()
    assert (done.name, done.error) == ("counts", None)
    assert viewed.counted() == {"C1": 100, "C2": 50}
    [(position, error, is_timed)] = viewed.rows(
        "select commit_position, error, seconds > 0 from disarray.view_refresh where name = 'counts'"
    )
    assert (position, error, is_timed) == (3, None, True)


def test_a_view_is_never_refreshed_when_nothing_it_depends_on_changed(viewed: ViewPlant) -> None:
    viewed.advance(60)
    assert viewed.refresh() == []
    # A copy of a file is no news: nothing was committed that changed a number.
    copy = viewed.inbox / "C1" / "copy.csv"
    copy.write_text((viewed.inbox / "C1" / "0.csv").read_text())
    viewed.ingest(copy)
    viewed.advance(60)
    assert viewed.refresh() == []
    assert viewed.rows("select count(*) from disarray.view_refresh") == [(0,)]


def test_a_view_of_a_rollup_waits_for_a_commit_that_changed_it(plant: ViewPlant) -> None:
    plant.add_file(0)
    plant.declare("quarters", depends_on='["cells.quarters"]')
    plant.declare("whole", depends_on='["cells"]')
    plant.apply()
    plant.rows(
        """
        insert into disarray.subject_commit (
            subject_key, dataset, commit_seq, changed_from, changed_to, changed_segments, changed_buckets, is_redefined,
            committed_at
        )
        values ('C1', 'cells', 2, '-infinity', 'infinity', '{}', '{"daily": {"buckets": [0]}}', false, now())
        returning 1
        """
    )
    assert [done.name for done in plant.refresh()] == ["whole"]
    plant.rows(
        "update disarray.subject_commit set changed_buckets = '{\"quarters\": {}}' where commit_seq = 2 returning 1"
    )
    assert [done.name for done in plant.refresh()] == ["quarters"]
    # What is no longer kept may have changed anything.
    plant.rows(
        "update disarray.subject_commit set commit_seq = 9, changed_buckets = '{}' where commit_seq = 2 returning 1"
    )
    plant.advance(2)
    assert sorted(done.name for done in plant.refresh()) == ["quarters", "whole"]


def test_refreshes_are_not_closer_than_at_most_every(viewed: ViewPlant) -> None:
    viewed.add_file(1)
    assert len(viewed.refresh()) == 1
    viewed.add_file(2)
    assert viewed.refresh() == []
    viewed.advance(1)
    assert len(viewed.refresh()) == 1
    assert viewed.counted() == {"C1": 150}


def test_a_changed_file_is_shown_as_a_diff_and_takes_effect_when_applied(viewed: ViewPlant) -> None:
    viewed.declare(query=COUNTS.replace("count(*)", "2 * count(*)"))
    [declared] = load_views(viewed.description)
    with viewed.pool.connection() as connection, connections.undone(connection):
        plan = plan_view(connection, declared)
    assert plan.change is ViewChange.REPLACE
    assert [line for line in plan.diff if line.startswith(("-select", "+select"))] == [
        "-select subject_key, count(*) as readings",
        "+select subject_key, 2 * count(*) as readings",
    ]
    assert viewed.counted() == {"C1": 50}
    assert [plan.change for plan in viewed.apply()] == [ViewChange.REPLACE]
    assert viewed.counted() == {"C1": 100}
    assert [plan.change for plan in viewed.apply()] == [ViewChange.NONE]
    viewed.declare(query=COUNTS.replace("count(*)", "2 * count(*)"), at_most_every='"5 min"')
    assert [plan.change for plan in viewed.apply()] == [ViewChange.ADJUST]
    viewed.add_file(1)
    assert len(viewed.refresh()) == 1
    assert viewed.counted() == {"C1": 200}
    # One relation and one index: nothing is left of the former ones.
    assert viewed.rows(
        "select count(*) from pg_class where relnamespace = 'telemetry'::regnamespace "
        "and relowner = 'disarray_views'::regrole"
    ) == [(2,)]


@pytest.mark.parametrize(
    ("query", "key", "message"),
    [
        ("select 1 +", '["subject_key"]', "view counts: syntax error"),
        (
            "select subject_key from nowhere",
            '["subject_key"]',
            'relation "nowhere" does not exist. Nothing was changed. The readings of a dataset are in telemetry where',
        ),
        ("select no_such(1) as one", '["one"]', "no_such(integer) does not exist. No function matches the"),
        ("select 1 / 0 as one", '["one"]', "view counts: division by zero. Nothing was changed"),
        ("select 1 as one", '["subject_key"]', "has no column subject_key, which its key names; it has one"),
        ("select 1 as one, 1 as two from cells", '["one"]', "could not create unique index"),
        ("select 1 as one; drop table telemetry.cells", '["one"]', "syntax error"),
        ("select 1 as one) as x; drop table telemetry.cells; select (1", '["one"]', "multiple commands"),
        ("select token_hash as one from disarray.api_token", '["one"]', "permission denied"),
        ("insert into telemetry.cells default values", '["one"]', "syntax error"),
    ],
    ids=[
        "syntax",
        "no table",
        "no function",
        "no number",
        "no key",
        "not unique",
        "two",
        "escape",
        "private",
        "writes",
    ],
)
def test_what_cannot_be_a_view_is_refused_and_changes_nothing(
    viewed: ViewPlant, query: str, key: str, message: str
) -> None:
    viewed.declare(query=query, key=key)
    with pytest.raises(ViewError, match="Nothing was changed") as refused:
        viewed.apply()
    assert message in str(refused.value)
    assert str(refused.value).count("Nothing was") == 1
    assert "db migrate" not in str(refused.value)
    assert viewed.counted() == {"C1": 50}
    assert viewed.rows("select count(*) from telemetry.cells") == [(50,)]
    assert viewed.rows("select left(definition, 18) from disarray.materialized_view") == [
        ("select subject_key",)
    ]


def test_faults_of_the_description_are_told_all_at_once(plant: ViewPlant) -> None:
    plant.declare(key="[]", depends_on='["cell"]', at_most_every='"soon"')
    with pytest.raises(SpecError) as refused:
        load_views(plant.description)
    told = str(refused.value)
    assert "view[0].key" in told
    assert "did you mean 'cells'?" in told
    assert "view[0].at_most_every" in told
    plant.declare()
    (plant.root / "counts.sql").unlink()
    with pytest.raises(ConfigError, match=r"counts\.sql"):
        load_views(plant.description)


def test_a_view_that_fails_is_told_and_stops_no_other_and_recovers(plant: ViewPlant) -> None:
    plant.add_file(0)
    plant.declare(
        "a_broken", query="select subject_key, 1 / (count(*) - 100) as readings from cells group by 1"
    )
    plant.declare("b_sound")
    plant.apply()
    plant.add_file(1)
    failed, sound = plant.refresh()
    assert (failed.name, sound.name, sound.error) == ("a_broken", "b_sound", None)
    assert "division by zero" in str(failed.error)
    assert plant.counted("telemetry.a_broken") == {"C1": 0}
    with plant.pool.connection() as connection:
        broken, _ = views.list_views(connection)
    assert (broken.failure_count, broken.is_stale) == (1, True)
    assert "division by zero" in str(broken.last_error)
    assert plant.refresh() == []  # it waits a minute
    plant.add_file(2)
    plant.advance(1)
    assert {done.name: done.error for done in plant.refresh()} == {"a_broken": None, "b_sound": None}
    with plant.pool.connection() as connection:
        mended, _ = views.list_views(connection)
    assert (mended.failure_count, mended.last_error, mended.is_stale) == (0, None, False)


def test_a_lost_unique_index_is_told_before_anything_and_mended_by_apply(viewed: ViewPlant) -> None:
    [(index,)] = viewed.rows(
        "select indexrelid::regclass::text from pg_index where indrelid = 'telemetry.counts'::regclass"
    )
    with viewed.pool.connection() as connection:
        connection.execute(f"drop index {index}".encode())
    viewed.add_file(1)
    [failed] = viewed.refresh()
    assert "has lost its unique index" in str(failed.error)
    assert "Run: disarray view apply counts" in str(failed.error)
    assert [plan.change for plan in viewed.apply()] == [ViewChange.REPLACE]
    assert viewed.counted() == {"C1": 100}


def test_what_disarray_did_not_make_is_neither_replaced_nor_dropped(viewed: ViewPlant) -> None:
    with viewed.pool.connection() as connection:
        connection.execute("create table telemetry.mine (subject_key text, readings bigint)")
        viewed.declare("mine")
        with pytest.raises(ViewError, match="disarray did not make it"):
            viewed.apply()
        with pytest.raises(UnknownNameError, match="no view 'mine' was applied"):
            drop_view(connection, "mine")
        # Nor what took the name of one of ours.
        connection.execute("drop materialized view telemetry.counts")
        connection.execute(
            "create materialized view telemetry.counts as select 'C1' as subject_key, 7 as readings"
        )
        with pytest.raises(ViewError, match="must be owner"):
            drop_view(connection, "counts")
    viewed.add_file(1)
    [failed] = viewed.refresh()
    assert "is not the view that was applied" in str(failed.error)
    assert viewed.counted() == {"C1": 7}


def test_a_view_that_others_build_on_is_not_dropped(viewed: ViewPlant) -> None:
    with viewed.pool.connection() as connection:
        connection.execute("create view telemetry.upon as select * from telemetry.counts")
        with pytest.raises(ViewError, match="depend on it"):
            drop_view(connection, "counts")
        assert len(views.list_views(connection)) == 1
        connection.execute("drop view telemetry.upon")
        drop_view(connection, "counts")
        assert views.list_views(connection) == []
    assert viewed.rows("select to_regclass('telemetry.counts')") == [(None,)]
    assert viewed.refresh() == []


def test_views_over_readings_whose_columns_changed_are_made_anew_and_keep_no_worker_from_starting(
    viewed: ViewPlant,
) -> None:
    viewed.declare("upon", query="select subject_key, 2 * readings as readings from telemetry.counts")
    viewed.declare("peaks", query="select subject_key, max(peak) as readings from cells_running group by 1")
    viewed.apply()
    before = viewed.description.read_text()
    after = before.replace('[dataset.metrics.peak]\nkind = "max"', '[dataset.metrics.lowest]\nkind = "min"')
    viewed.redefine(after)
    with viewed.pool.connection() as connection:
        known = {each.name: each for each in views.list_views(connection)}
    assert 'column "peak" does not exist' in str(known["peaks"].last_error)
    assert "Mend its file and run: disarray view apply peaks" in str(known["peaks"].last_error)
    assert known["counts"].last_error is None
    assert known["counts"].is_stale
    assert {each.name: each.error for each in viewed.refresh()} == {"counts": None, "upon": None}
    assert (viewed.counted(), viewed.counted("telemetry.upon")) == ({"C1": 50}, {"C1": 100})
    assert viewed.rows("select distinct matviewowner::text from pg_matviews") == [(views.OWNER,)]
    # From here on they are refreshed like any other.
    viewed.drain()
    viewed.add_file(1)
    viewed.advance(2)
    [peaks] = [each for each in viewed.refresh() if each.error is not None]
    assert "Run: disarray view apply peaks" in str(peaks.error)
    assert viewed.counted() == {"C1": 100}
    viewed.declare("peaks", query="select subject_key, min(lowest) as readings from cells_running group by 1")
    viewed.description.write_text(after)
    assert [plan.change for plan in viewed.apply()] == [ViewChange.NONE, ViewChange.NONE, ViewChange.REPLACE]


def test_readers_are_never_blocked_and_see_one_state_or_the_other(viewed: ViewPlant) -> None:
    ended, seen, failures = threading.Event(), set[int](), list[str]()

    def poll() -> None:
        with connections.connect(viewed.dsn) as session:
            # A reader that had to wait for a refresh would fail.
            session.execute("set lock_timeout = '20ms'")
            while not ended.is_set():
                try:
                    row = session.execute("select sum(readings)::int from telemetry.counts").fetchone()
                    seen.add(-1 if row is None else row[0])
                except psycopg.Error as error:
                    failures.append(str(error))

    viewed.declare(
        query="with slow as materialized (select pg_sleep(0.2)) "
        + COUNTS.replace("group", "cross join slow group")
    )
    viewed.apply()
    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for number in range(1, 4):
            viewed.add_file(number)
            viewed.advance(1)
            assert [done.error for done in viewed.refresh()] == [None]
        eventually(lambda: 200 in seen)
    finally:
        ended.set()
        reader.join()
    assert failures == []
    assert seen <= {50, 100, 150, 200}


def test_two_refreshers_never_refresh_one_view_at_once_and_a_stale_one_is_fenced(viewed: ViewPlant) -> None:
    viewed.add_file(1)
    first, second = viewed.refresher("Worker02"), viewed.refresher("Worker03")
    with viewed.pool.connection() as connection:
        turn = views.claim_view(connection, first.holder)
    assert turn is not None
    assert list(second.refresh_due()) == []
    # Its lease runs out while it is frozen: another one does the work, and it can change nothing any more.
    viewed.advance(12)
    assert [done.error for done in second.refresh_due()] == [None]
    with pytest.raises(LeaseLostError, match="is no longer refreshed by 'Worker02'"):
        first._refresh(turn)
    assert viewed.rows("select count(*) from disarray.view_refresh") == [(1,)]
    assert viewed.counted() == {"C1": 100}
    # Nor by a turn of its own that is over, while it has another.
    viewed.add_file(2)
    viewed.advance(12)
    with viewed.pool.connection() as connection:
        assert views.claim_view(connection, first.holder) is not None
    with pytest.raises(LeaseLostError):
        first._refresh(turn)
    assert viewed.counted() == {"C1": 100}


def test_many_refreshers_share_the_views(plant: ViewPlant) -> None:
    plant.add_file(0)
    for number in range(6):
        plant.declare(f"v{number}")
    plant.apply()
    plant.add_file(1)
    refreshers = [plant.refresher(f"Worker{number}") for number in range(3)]
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda each=each: found.extend(done.name for done in each.refresh_due()))
        for each in refreshers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [f"v{number}" for number in range(6)]


@pytest.mark.parametrize("point", VIEWS)
def test_a_refresher_killed_at_any_step_leaves_the_old_view_or_the_new_and_the_next_one_finishes(
    viewed: ViewPlant, tmp_path: Path, point: str
) -> None:
    viewed.add_file(1)
    log = tmp_path / "failpoints.log"
    armed = {"DISARRAY_FAILPOINTS": f"{point}=kill", "DISARRAY_FAILPOINT_LOG": str(log)}
    assert live(refresh_due, viewed.dsn, **armed) == -signal.SIGKILL
    assert log.read_text().count(f"{point} kill") == 1
    is_done = point == "view.committed"
    assert viewed.counted() == {"C1": 100 if is_done else 50}
    assert viewed.rows("select count(*) from disarray.view_refresh") == [(int(is_done),)]
    # A life of the same name takes over at once; another would after the lease.
    assert live(refresh_due, viewed.dsn) == 0
    assert viewed.counted() == {"C1": 100}
    assert viewed.rows("select count(*), max(commit_position) from disarray.view_refresh") == [(1, 2)]


def test_logins_with_no_more_than_their_roles_apply_and_refresh(plant: ViewPlant) -> None:
    plant.add_file(0)
    plant.declare()
    names = {role: f"{role}_{os.getpid()}" for role in ("operator", "worker", "reader")}
    with psycopg.connect(plant.dsn, autocommit=True) as admin:
        for role, name in names.items():
            admin.execute(
                sql.SQL("create role {} login password 'x' in role {}").format(
                    sql.Identifier(name), sql.Identifier(f"disarray_{role}")
                )
            )
    own = plant.pool
    try:
        with connections.open_pool(
            psycopg.conninfo.make_conninfo(plant.dsn, user=names["operator"], password="x")
        ) as pool:
            plant.pool = pool
            assert [plan.change for plan in plant.apply()] == [ViewChange.CREATE]
        plant.pool = own
        plant.add_file(1)
        with connections.open_pool(
            psycopg.conninfo.make_conninfo(plant.dsn, user=names["worker"], password="x")
        ) as pool:
            assert [done.error for done in ViewRefresher(pool, plant.place.holder).refresh_due()] == [None]
            with pool.connection() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("create table telemetry.not_allowed ()")
            # Nor as the owner of views, which a worker becomes to refresh one.
            with pool.connection() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(
                    "set role disarray_views; create function telemetry.round(numeric) returns int return 1"
                )
            with pool.connection() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("select disarray.grant_view_creation()")
        with connections.connect(
            psycopg.conninfo.make_conninfo(plant.dsn, user=names["reader"], password="x")
        ) as reader:
            assert reader.execute("select readings from telemetry.counts").fetchall() == [(100,)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute("set role disarray_views")
    finally:
        plant.pool = own
        with psycopg.connect(plant.dsn, autocommit=True) as admin:
            for name in names.values():
                admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def test_a_worker_refreshes_views_beside_its_other_work_until_it_is_told_to_stop(viewed: ViewPlant) -> None:
    stop = threading.Event()
    scheduler = Scheduler(viewed.place)
    settings = worker_settings(load(viewed.root))
    services = worker_services.make_services(viewed.place, scheduler=scheduler, settings=settings, stop=stop)
    viewed.add_file(1)
    services["views"].start()
    try:
        eventually(lambda: viewed.counted() == {"C1": 100})
    finally:
        stop.set()
        services["views"].stop()
    assert viewed.rows("select count(*) from disarray.view_refresh") == [(1,)]


def test_a_worker_that_is_told_to_stop_breaks_a_long_refresh_off(
    viewed: ViewPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_services, "VIEW_GRACE_SECONDS", 0.1)
    # Quick as long as there are fifty readings.
    viewed.declare(
        query=COUNTS.replace("count(*)", "count(*) + length(pg_sleep(count(*) / 50 * 500 - 500)::text)")
    )
    viewed.apply()
    viewed.add_file(1)
    stop = threading.Event()
    services = worker_services.make_services(
        viewed.place,
        scheduler=Scheduler(viewed.place),
        settings=worker_settings(load(viewed.root)),
        stop=stop,
    )
    services["views"].start()
    eventually(lambda: viewed.rows("select 1 from pg_stat_activity where wait_event = 'PgSleep'"))
    services["views"].stop()
    assert viewed.counted() == {"C1": 50}
    [(error,)] = viewed.rows("select error from disarray.view_refresh")
    assert "broke off" in str(error)
    assert viewed.rows("select instance_name from disarray.materialized_view") == [(None,)]
