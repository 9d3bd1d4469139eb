"""How fast a backfill goes: sizes that follow durations, a rate that all workers share, and limits of health."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.backfill.description import HealthLimits, Processing, RetryPolicy
from disarray.backfill.health import Strain, hold_of
from disarray.backfill.pacing import Pace, bounded_rows, next_pace, retry_delay
from disarray.control import backfill_chunks, backfills, instances
from disarray.control.backfill_chunks import ClaimOutcome, FailureLimits
from disarray.errors import DatabaseUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.backfill.conftest import Shop

LIMITS = FailureLimits(max_attempts=3, max_error_rate=0.1, alert_threshold=0.01)
PROCESSING = Processing(target_seconds=0.1, min_rows=10, max_rows=10_000)


@pytest.mark.parametrize(
    ("seconds_per_row", "begin", "end"),
    [
        (0.0001, 100, 1_000),  # grows to what takes the target
        (0.001, 5_000, 100),  # shrinks to it
        (1e-9, 100, 10_000),  # not above the most
        (1.0, 100, 10),  # not below the least
    ],
)
def test_the_size_comes_to_what_takes_the_target_duration(
    seconds_per_row: float, begin: int, end: int
) -> None:
    pace = Pace(None, begin)
    for _ in range(40):
        rows = pace.chunk_rows
        pace = next_pace(
            pace, rows=rows, seconds=rows * seconds_per_row, processing=PROCESSING, rate_limit=None
        )
    assert pace.chunk_rows == end


@pytest.mark.parametrize(
    ("durations", "sizes"),
    [
        # Each chunk of 100 rows took so long: the size after it.
        ([0.1, 0.1], [100, 100]),
        ([0.01], [150]),  # ten times too fast: one step up
        ([10.0], [60]),  # a hundred times too slow: one step down
        ([0.1, 10.0, 0.1], [100, 60, 36]),  # an outlier is remembered for a while
    ],
)
def test_one_chunk_moves_the_size_by_one_step(durations: list[float], sizes: list[int]) -> None:
    pace, found = Pace(None, 100), []
    for seconds in durations:
        pace = next_pace(pace, rows=100, seconds=seconds, processing=PROCESSING, rate_limit=None)
        found.append(pace.chunk_rows)
    assert found == sizes


def test_a_chunk_is_no_more_than_a_quarter_of_a_second_of_the_rate() -> None:
    assert bounded_rows(5_000, processing=PROCESSING, rate_limit=200) == 50
    assert bounded_rows(5_000, processing=PROCESSING, rate_limit=3) == 1
    assert bounded_rows(1, processing=PROCESSING, rate_limit=None) == 10


def test_a_failed_chunk_waits_longer_each_time() -> None:
    policy = RetryPolicy(backoff_seconds=2, multiplier=5)
    assert [retry_delay(policy, attempts) for attempts in (1, 2, 3, 50)] == [2, 10, 50, 86_400]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_rate_holds_over_all_workers_together(
    shop: Shop, advance_clock: Callable[[timedelta], None], workers: int
) -> None:
    shop.connection.execute(
        "insert into shop.orders (id, gross, tax) select n, 1, 1 from generate_series(1000, 20000) n"
    )
    job_id = shop.start({"processing": {"rate_limit_per_second": 100, "max_concurrency": 9, "cut_ahead": 2}})
    served = [shop.worker(job_id, f"Worker{number}") for number in range(workers)]
    # The clock of the database stands still between our steps but for what it really takes.
    for _ in range(120):  # 30 seconds, a quarter at a time
        for worker in served:
            while (step := worker.step()).goes_on and step.wait_seconds == 0:
                pass
        advance_clock(timedelta(seconds=0.25))
    job = shop.job(job_id)
    seconds = (job.listed_at - job.started_at).total_seconds()
    assert job.rows_done == pytest.approx(100 * seconds, rel=0.05)


def test_a_new_rate_is_in_force_at_once(shop: Shop, advance_clock: Callable[[timedelta], None]) -> None:
    job_id = shop.start({"processing": {"rate_limit_per_second": 0.01}, "source": {"batch_size": 1}})
    holder = instances.register_instance(shop.connection, "Worker01")
    worker = shop.worker(job_id, "Worker02")
    worker.step()
    wait = worker.step().wait_seconds
    assert wait > 90
    assert shop.job(job_id).held_by == "rate"
    assert "0.01 rows a second is the limit" in str(shop.job(job_id).held_reason)
    backfills.set_backfill_pace(
        shop.connection, job_id, rate_limit=None, max_concurrency=1, reason="night", by="ada"
    )
    claims = [
        backfill_chunks.claim_backfill_chunk(shop.connection, job_id, holder, lease_seconds=60, limits=LIMITS)
        for _ in range(2)
    ]
    assert [claim.outcome for claim in claims] == [ClaimOutcome.CLAIMED, ClaimOutcome.CONCURRENCY]
    assert shop.job(job_id).held_by == "concurrency"


@pytest.mark.parametrize(
    ("strain", "held_by"),
    [
        (Strain(), None),
        (
            Strain(commit_p99_seconds=30, queue_age_seconds=120, lock_waits=20, replication_lag_seconds=30),
            None,
        ),
        (Strain(commit_p99_seconds=31), "max_commit_p99"),
        (Strain(queue_age_seconds=121), "max_queue_age"),
        (Strain(lock_waits=21), "max_lock_waits"),
        (Strain(replication_lag_seconds=31), "max_replication_lag"),
    ],
)
def test_a_limit_of_health_that_is_passed_holds_the_backfill(strain: Strain, held_by: str | None) -> None:
    hold = hold_of(strain, HealthLimits())
    assert (None if hold is None else hold.held_by) == held_by
    off = HealthLimits(
        max_commit_p99_seconds=None,
        max_queue_age_seconds=None,
        max_lock_waits=None,
        max_replication_lag_seconds=None,
    )
    assert hold_of(strain, off) is None


def test_a_live_queue_that_waits_too_long_throttles_until_it_is_served(
    shop: Shop, advance_clock: Callable[[timedelta], None]
) -> None:
    job_id = shop.start()
    worker = shop.worker(job_id)
    shop.connection.execute("select disarray.enqueue_file('file:///a', 'TOOL01')")
    advance_clock(timedelta(minutes=3))
    assert worker.step().wait_seconds > 0
    job = shop.job(job_id)
    assert (job.chunks_done, job.held_by) == (0, "max_queue_age")
    assert "the limit is 120 s" in str(job.held_reason)
    shop.connection.execute("delete from disarray.ingest_queue")
    worker.step()
    assert (shop.job(job_id).chunks_done, shop.job(job_id).held_by) == (1, None)


def test_slow_live_commits_throttle(shop: Shop, advance_clock: Callable[[timedelta], None]) -> None:
    job_id = shop.start()
    shop.connection.execute("select disarray.enqueue_file('file:///a', 'TOOL01')")
    [(item,)] = shop.rows("select queue_id from disarray.fetch_items('Worker07')")
    advance_clock(timedelta(seconds=40))
    shop.connection.execute(f"select disarray.complete_item({item}, 'Worker07')".encode())
    shop.worker(job_id).step()
    assert shop.job(job_id).held_by == "max_commit_p99"


def test_a_database_that_is_away_is_tried_again_and_costs_no_attempt(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = shop.start()
    worker = shop.worker(job_id)

    def cut_off(*_: object) -> object:
        raise DatabaseUnavailableError("the server closed the connection")

    monkeypatch.setitem(vars(worker._session.kind), "read", cut_off)
    with pytest.raises(DatabaseUnavailableError):
        worker.step()
    [chunk, *_] = backfill_chunks.list_backfill_chunks(shop.connection, job_id)
    assert (chunk.state, chunk.attempts, chunk.failures) == ("waiting", 0, 0)
    assert "closed the connection" in str(chunk.last_error)
