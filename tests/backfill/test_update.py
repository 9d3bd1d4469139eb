"""Columns of a user's table computed in chunks: every row once, by SQL or by a function, and a verdict at the end."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from disarray.backfill.serving_jobs import JobServer
from disarray.backfill.starting import plan_backfill
from disarray.control import backfill_chunks, backfills, instances
from disarray.control.backfills import BackfillDecision
from disarray.errors import InvalidRequestError, LeaseLostError
from tests.backfill.conftest import ADD_ONE, Shop, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT_UP: dict[str, Any] = {
    "update": {"set": ["touched"], "function": "tests.backfill.functions:count_up", "columns": ["touched"]}
}
NO_WAIT = {"processing": {"retry_policy": {"max_attempts": 2, "backoff": "0 s"}}}


@pytest.mark.parametrize("how", [{}, COUNT_UP], ids=["sql", "function"])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_row_is_transformed_once_and_the_job_is_verified(
    shop: Shop, how: dict[str, Any], threads: int
) -> None:
    job = shop.run(shop.start(how), threads=threads)
    assert (job.state, job.verdict) == ("done", "verified")
    assert (job.chunks_done, job.rows_done, job.rows_written) == (5, 100, 100)
    assert shop.effects() == {1}


def test_two_processes_share_a_job_and_transform_every_row_once(shop: Shop) -> None:
    job_id = shop.start(
        {"source": {"batch_size": 5}, "processing": {"min_batch_size": 5, "max_batch_size": 5}}
    )
    servers = [
        JobServer(dsn=shop.dsn, holder=instances.register_instance(shop.connection, name), lease_seconds=60)
        for name in ("Worker01", "Worker02")
    ]
    workers = [
        threading.Thread(target=server.run_job, args=(job_id, threading.Event()), kwargs={"threads": 1})
        for server in servers
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (shop.job(job_id).verdict, shop.job(job_id).chunks_done) == ("verified", 20)
    assert shop.effects() == {1}


def test_only_rows_of_the_filter_are_changed_and_percent_signs_are_sql(shop: Shop) -> None:
    job = shop.run(
        shop.start({"source": {"where": "id % 2 = 0 and coalesce(note, '') not like '%9' -- even"}})
    )
    assert job.verdict == "verified"
    rows = shop.rows(
        "select count(*), sum(touched) from shop.orders where id % 2 = 0 and coalesce(note, '') not like '%9'"
    )
    assert rows == [(job.rows_written, job.rows_written)]
    assert shop.rows("select sum(touched) from shop.orders") == [(job.rows_written,)]


def test_a_function_gets_arrow_and_its_values_are_stored_bit_for_bit(shop: Shop) -> None:
    update = {
        "set": ["net", "note"],
        "function": "tests.backfill.functions:net",
        "columns": ["gross", "tax", "note"],
    }
    job = shop.run(shop.start({"update": update}))
    assert job.verdict == "verified"
    assert shop.rows("select count(*) from shop.orders where net is distinct from gross::float8 - tax") == [
        (0,)
    ]
    assert shop.rows("select count(*) from shop.orders where note = 'none'") == [(20,)]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("too_few", "gave 1 rows for 20"),
        ("fractions", "column touched is integer"),
        ("failing", "ValueError: no such price"),
    ],
)
def test_a_function_that_breaks_its_promise_leaves_dead_chunks_and_stops_the_job(
    shop: Shop, function: str, reason: str
) -> None:
    update = {"set": ["touched"], "function": f"tests.backfill.functions:{function}", "columns": ["touched"]}
    job = shop.run(shop.start({"update": update}, NO_WAIT))
    assert (job.state, job.chunks_dead, job.verdict) == ("stopped", 1, None)
    assert job.state_reason is not None
    assert reason in job.state_reason
    [dead] = backfill_chunks.list_backfill_chunks(shop.connection, job.job_id, state="dead")
    assert (dead.attempts, reason in str(dead.last_error)) == (2, True)
    assert shop.effects() == {0}


def test_one_bad_chunk_is_dead_with_its_reason_and_the_others_go_on(shop: Shop) -> None:
    shop.connection.execute(
        "alter table shop.orders add constraint not_too_many check (touched < 1 or id <> 75)"
    )
    job_id = shop.start(NO_WAIT, {"processing": {"max_error_rate": 0.5}})
    job = shop.run(job_id)
    assert (job.state, job.chunks_done, job.chunks_dead, job.verdict) == ("done", 4, 1, "incomplete")
    [dead] = backfill_chunks.list_backfill_chunks(shop.connection, job_id, state="dead")
    assert "not_too_many" in str(dead.last_error)
    [(alerts,)] = shop.rows(
        "select count(*) from disarray.ingest_event where event_type = 'backfill_alerted'"
    )
    assert alerts == 1
    shop.connection.execute("alter table shop.orders drop constraint not_too_many")
    backfills.decide_backfill(shop.connection, job_id, BackfillDecision.RESUMED, reason="mended", by="ada")
    assert shop.run(job_id).verdict == "verified"
    assert shop.effects() == {1}


def test_a_cursor_of_several_columns_of_any_type_skips_nothing(shop: Shop) -> None:
    shop.connection.execute(
        """
        create table shop.lines (place text, at timestamptz, ratio float8, touched int default 0,
            unique (place, at, ratio));
        insert into shop.lines (place, at, ratio)
        select 'p%' || n % 4, '2026-01-01'::timestamptz + n % 5 * interval '0.1 ms', n / 3.0
        from generate_series(1, 200) as n
        """
    )
    source = {"table": "shop.lines", "cursor_column": ["place", "at", "ratio"]}
    job = shop.run(shop.start({"source": source}))
    assert (job.verdict, job.rows_written) == ("verified", 200)
    assert shop.rows("select distinct touched from shop.lines") == [(1,)]


def test_an_empty_table_is_done_at_once(shop: Shop) -> None:
    shop.connection.execute("truncate shop.orders")
    job = shop.run(shop.start())
    assert (job.state, job.verdict, job.rows_done) == ("done", "verified", 0)


def test_rows_that_come_later_are_not_its_own(shop: Shop) -> None:
    job_id = shop.start()
    shop.connection.execute("insert into shop.orders (id, gross, tax) values (1000, 1, 1)")
    shop.run(job_id)
    assert shop.rows("select touched from shop.orders where id = 1000") == [(0,)]


def test_a_paused_job_claims_nothing_and_goes_on_where_it_was(shop: Shop) -> None:
    job_id = shop.start()
    worker = shop.worker(job_id)
    worker.step()
    backfills.decide_backfill(shop.connection, job_id, BackfillDecision.PAUSED, reason="lunch", by="ada")
    assert not worker.step().goes_on
    assert (shop.job(job_id).state, shop.job(job_id).chunks_done) == ("paused", 1)
    with pytest.raises(InvalidRequestError, match="is under way as job"):
        shop.start()
    backfills.decide_backfill(shop.connection, job_id, BackfillDecision.RESUMED, reason="back", by="ada")
    assert shop.run(job_id).verdict == "verified"
    assert shop.effects() == {1}


def test_a_cancelled_job_stays_where_it_was(shop: Shop) -> None:
    job_id = shop.start()
    shop.worker(job_id).step()
    backfills.decide_backfill(shop.connection, job_id, BackfillDecision.CANCELLED, reason="wrong", by="ada")
    shop.run(job_id)
    assert shop.rows("select sum(touched) from shop.orders") == [(20,)]
    with pytest.raises(InvalidRequestError, match="cannot be resumed"):
        backfills.decide_backfill(shop.connection, job_id, BackfillDecision.RESUMED, reason="no", by="ada")


@pytest.mark.parametrize("how", [{}, COUNT_UP], ids=["sql", "function"])
def test_a_worker_that_froze_past_its_lease_changes_nothing(
    shop: Shop,
    how: dict[str, Any],
    advance_clock: Callable[[timedelta], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_id = shop.start(how)
    frozen, other = shop.worker(job_id, "Frozen"), shop.worker(job_id, "Other")
    read, rejected = frozen._session.kind.read, []

    def freeze(*given: Any) -> object:
        known = read(*given)
        advance_clock(timedelta(seconds=61))
        while (step := other.step()).goes_on:
            assert step.wait_seconds == 0
        return known

    monkeypatch.setitem(vars(frozen._session.kind), "read", freeze)
    commit = frozen._commit_here

    def commit_late(*given: Any) -> None:
        with pytest.raises(LeaseLostError) as caught:
            commit(*given)
        rejected.append(caught.value)
        raise caught.value

    monkeypatch.setattr(frozen, "_commit_here", commit_late)
    frozen.step()
    assert len(rejected) == 1
    assert shop.job(job_id).verdict == "verified"
    assert shop.effects() == {1}


def test_a_plan_tries_a_chunk_and_leaves_nothing(shop: Shop) -> None:
    plan = plan_backfill(shop.dsn, spec_of(ADD_ONE))
    assert plan.sample is not None
    assert plan.expected_seconds is not None
    assert (plan.rows, plan.chunks, plan.sample.rows, plan.sample.rows_written) == (100, 5, 20, 20)
    assert plan.bytes > 0
    assert plan.expected_seconds > 0
    assert shop.effects() == {0}
    assert backfills.list_backfills(shop.connection) == []
