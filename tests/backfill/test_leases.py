"""What a worker holds, and for how long: work that takes longer is done once, or cut, or given up for a reason."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from disarray.backfill import lease_keeper
from disarray.control import backfill_chunks, backfills
from disarray.errors import BackfillTargetError
from tests.processes import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.backfill.conftest import Shop

LEASES = {
    "read": "select max(lease_expires_at) from disarray.backfill_chunk",
    "verify": "select lease_expires_at from disarray.backfill_job",
}
# Twenty rows of 20 ms each.
SLOW = {"update": {"set": {"touched": "touched + 1 + length(pg_sleep(0.02)::text)"}}}


@pytest.mark.parametrize("phase", ["read", "verify"])
def test_a_lease_is_renewed_while_a_worker_is_at_it(
    shop: Shop, phase: str, advance_clock: Callable[[timedelta], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_keeper, "RENEWALS_IN_A_LEASE", 600)
    shop.connection.execute("delete from shop.orders where id > 60")
    job_id = shop.start()
    worker = shop.worker(job_id)
    kind = worker._session.kind
    work = getattr(kind, phase)

    def slow(*given: Any) -> Any:
        first = shop.rows(LEASES[phase])
        advance_clock(timedelta(seconds=40))
        eventually(lambda: shop.rows(LEASES[phase]) > first, seconds=60)
        advance_clock(timedelta(seconds=40))  # 80 seconds since the lease of 60
        return work(*given)

    monkeypatch.setitem(vars(kind), phase, slow)
    while worker.step().goes_on:
        pass
    [chunk] = backfill_chunks.list_backfill_chunks(shop.connection, job_id)
    assert (chunk.state, chunk.attempts) == ("done", 1)
    assert shop.job(job_id).verdict == "verified"


def test_a_chunk_whose_transaction_takes_longer_than_the_lease_is_done_once(
    shop: Shop, advance_clock: Callable[[timedelta], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = shop.start()
    worker, other = shop.worker(job_id), shop.worker(job_id, "Worker02")
    kind = worker._session.kind
    write = kind.write

    def slow(*given: Any) -> Any:
        result = write(*given)
        advance_clock(timedelta(seconds=61))
        while other.step().wait_seconds == 0:  # every chunk but this one
            pass
        return result

    monkeypatch.setitem(vars(kind), "write", slow)
    worker.step()
    assert shop.run(job_id).verdict == "verified"
    chunks = backfill_chunks.list_backfill_chunks(shop.connection, job_id)
    assert [(chunk.state, chunk.attempts) for chunk in chunks] == [("done", 1)] * 5
    assert shop.effects() == {1}


def test_a_worker_whose_lease_is_gone_does_not_stop_the_job(
    shop: Shop, advance_clock: Callable[[timedelta], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = shop.start()
    worker, other = shop.worker(job_id), shop.worker(job_id, "Worker02")

    def frozen(*_given: Any) -> Any:
        advance_clock(timedelta(seconds=61))
        other.step()  # the chunk is another's
        raise BackfillTargetError("the table is not what it was while this worker slept")

    monkeypatch.setitem(vars(worker._session.kind), "read", frozen)
    worker.step()
    assert shop.job(job_id).state == "running"
    assert shop.run(job_id).verdict == "verified"


def test_chunks_that_die_with_their_workers_count_as_any_other(
    shop: Shop, advance_clock: Callable[[timedelta], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = shop.start({"processing": {"retry_policy": {"max_attempts": 1}}})
    worker = shop.worker(job_id)

    def end(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setitem(vars(worker._session.kind), "read", end)
    with pytest.raises(KeyboardInterrupt):
        worker.step()
    advance_clock(timedelta(seconds=61))
    assert not shop.worker(job_id, "Worker02").step().goes_on
    job = shop.job(job_id)
    assert (job.state, job.chunks_dead, job.chunks_done) == ("stopped", 1, 0)
    assert "1 of 1 chunks are dead, more than max_error_rate allows" in str(job.state_reason)
    assert "ended without an answer" in str(job.state_reason)
    told = "select event_type::text from disarray.ingest_event where event_type::text like 'backfill%' order by 1"
    assert shop.rows(told) == [("backfill_alerted",), ("backfill_started",), ("backfill_stopped",)]


def test_a_chunk_that_takes_longer_than_a_statement_may_is_cut_and_every_row_is_transformed_once(
    shop: Shop,
) -> None:
    shop.connection.execute("delete from shop.orders where id > 60")
    job_id = shop.start(SLOW, {"processing": {"min_batch_size": 1}})
    worker = shop.worker(job_id)
    worker._session.control.execute("set statement_timeout = '250ms'")
    while worker.step().goes_on:
        pass
    job = shop.job(job_id)
    assert (job.verdict, job.rows_done, job.chunks_dead) == ("verified", 20, 0)
    chunks = backfill_chunks.list_backfill_chunks(shop.connection, job_id)
    assert len(chunks) > 1
    assert [chunk.cursor_to for chunk in chunks] == sorted((chunk.cursor_to for chunk in chunks), key=_number)
    assert job.chunk_rows <= 10, "the next chunks are as large"
    assert shop.effects() == {1}


def test_a_chunk_that_takes_too_long_and_cannot_be_cut_dies_with_the_reason(shop: Shop) -> None:
    job_id = shop.start(SLOW, {"processing": {"retry_policy": {"max_attempts": 1}}})
    worker = shop.worker(job_id)
    worker._session.control.execute("set statement_timeout = '250ms'")
    while worker.step().goes_on:
        pass
    job = shop.job(job_id)
    assert (job.state, job.chunks_dead) == ("stopped", 1)
    assert "It has 20 rows and is not cut further: lower processing.max_batch_size" in str(job.state_reason)


def test_a_verification_that_takes_longer_than_a_statement_may_stops_the_job_with_the_reason(
    shop: Shop,
) -> None:
    job_id = shop.start(
        {"verification": {"checksum_query": "select 1 from pg_sleep((select max(touched) from shop.orders))"}}
    )
    worker = shop.worker(job_id)
    while shop.job(job_id).chunks_done < 5:
        worker.step()
    worker._session.control.execute("set statement_timeout = '250ms'")
    worker.step()
    job = shop.job(job_id)
    assert job.state == "stopped"
    assert "it could not be verified: the server broke off a statement" in str(job.state_reason)


def test_jobs_that_ended_long_ago_are_forgotten_with_their_chunks(
    shop: Shop, advance_clock: Callable[[timedelta], None]
) -> None:
    old = shop.run(shop.start())
    advance_clock(timedelta(days=2))
    running = shop.start()
    keep = timedelta(days=1)
    assert backfills.forget_backfills(shop.connection, keep=keep, is_rehearsal=True) == 1
    assert backfills.forget_backfills(shop.connection, keep=keep) == 1
    assert [job.job_id for job in backfills.list_backfills(shop.connection)] == [running]
    assert backfill_chunks.list_backfill_chunks(shop.connection, old.job_id) == []


def _number(cursor: list[str]) -> int:
    return int(cursor[0])
