"""Several jobs on one worker: each has its turn, and none waits for the database of another."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from disarray.backfill.job_session import open_in_database
from disarray.backfill.serving_jobs import JobServer
from disarray.control import backfill_chunks, instances
from disarray.errors import DatabaseUnavailableError
from disarray.model.backoff import Backoff
from disarray.model.breaker import Breaker
from tests.processes import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.backfill.description import BackfillSpec
    from disarray.backfill.kind import BackfillKind, KindOpener
    from disarray.control.connections import Connection
    from tests.backfill.conftest import Shop


@contextmanager
def served(shop: Shop, *, open_kind: KindOpener = open_in_database) -> Iterator[None]:
    """A worker that serves all jobs meanwhile."""
    stop = threading.Event()
    holder = instances.register_instance(shop.connection, "Worker01")
    server = JobServer(dsn=shop.dsn, holder=holder, lease_seconds=60, open_kind=open_kind)
    breaker = Breaker("the database", DatabaseUnavailableError)
    thread = threading.Thread(target=server.serve, args=(stop,), kwargs={"control_breaker": breaker})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is one chunk, and nobody idles for a second."""
    monkeypatch.setattr("disarray.backfill.serving_jobs._TURN_SECONDS", 0.0)
    monkeypatch.setattr("disarray.backfill.serving_jobs._IDLE_SECONDS", 0.01)


def test_jobs_without_a_limit_are_worked_on_in_turns(shop: Shop) -> None:
    jobs = [shop.start({"name": name}) for name in ("first", "second")]
    with served(shop):
        eventually(lambda: all(shop.job(job_id).state == "done" for job_id in jobs))
    first, second = (backfill_chunks.list_backfill_chunks(shop.connection, job_id) for job_id in jobs)
    assert len(first) == len(second) == 5
    assert second[0].ended_at is not None
    assert first[-1].ended_at is not None
    assert second[0].ended_at < first[-1].ended_at


def test_a_job_that_is_started_while_another_is_served_alone_gets_its_turn(shop: Shop) -> None:
    slow = shop.start({"name": "slow", "processing": {"rate_limit_per_second": 0.001}})
    with served(shop):
        eventually(lambda: shop.job(slow).held_by == "rate")
        later = shop.start({"name": "later"})
        eventually(lambda: shop.job(later).state == "done")
    assert shop.job(slow).state == "running"


def test_the_database_of_one_job_may_be_away_without_the_others(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever waits for that one waits for longer than the test has.
    monkeypatch.setattr("disarray.model.breaker.Backoff", lambda: Backoff(first_s=9_999, longest_s=9_999))

    @contextmanager
    def away(
        connection: Connection, spec: BackfillSpec, job_id: int | None = None, /
    ) -> Iterator[BackfillKind]:
        if spec.name == "elsewhere":
            raise DatabaseUnavailableError("no route to host")
        with open_in_database(connection, spec, job_id) as kind:
            yield kind

    elsewhere, here = (shop.start({"name": name}) for name in ("elsewhere", "here"))
    with served(shop, open_kind=away):
        eventually(lambda: shop.job(here).state == "done")
    job = shop.job(elsewhere)
    assert (job.state, job.held_by, job.held_reason) == ("running", "database", "no route to host")
