"""Whose turn it is to read a source: one at a time, and a turn that is over can change nothing."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import instances, sources
from disarray.control.deliveries import BatchCounts
from disarray.control.sources import SourceDecision
from disarray.errors import LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder
    from disarray.control.sources import SourceTurn

NAMES = ("historian", "public.readings")


def claim(connection: Connection, holder: Holder, *, is_asked_for: bool = False) -> SourceTurn | None:
    return sources.claim_source(connection, *NAMES, holder, lease_seconds=60, is_asked_for=is_asked_for)


@pytest.fixture
def first(connection: Connection) -> Holder:
    return instances.register_instance(connection, "Worker01")


@pytest.fixture
def second(connection: Connection) -> Holder:
    return instances.register_instance(connection, "Worker02")


def advance(connection: Connection, turn: SourceTurn, to: int) -> None:
    counts = BatchCounts(seen=2, taken=1, duplicate=1)
    sources.advance_source(connection, turn, run_id=uuid.uuid4(), watermark={"at": to}, counts=counts)


def test_one_reads_and_the_other_waits_until_the_lease_is_over(
    connection: Connection, first: Holder, second: Holder, advance_clock: Callable[[timedelta], None]
) -> None:
    turn = claim(connection, first)
    assert turn is not None
    assert claim(connection, second) is None
    assert claim(connection, first) is None  # a second thread of the same worker
    advance(connection, turn, 1)
    advance_clock(timedelta(seconds=61))
    other = claim(connection, second)
    assert other is not None
    assert other.watermark == {"at": 1}
    with pytest.raises(LeaseLostError):
        advance(connection, turn, 2)
    with pytest.raises(LeaseLostError):
        sources.renew_source(connection, turn, lease_seconds=9)
    advance(connection, other, 3)
    [known] = sources.list_sources(connection)
    assert (known.watermark, known.rows_seen, known.rows_taken, known.held_by) == (
        {"at": 3},
        4,
        2,
        "Worker02",
    )


def test_a_worker_that_was_started_again_takes_over_at_once(connection: Connection, first: Holder) -> None:
    turn = claim(connection, first)
    assert turn is not None
    reborn = instances.register_instance(connection, "Worker01")
    assert claim(connection, reborn) is not None
    with pytest.raises(LeaseLostError):
        advance(connection, turn, 1)


def test_a_source_is_due_when_it_said_and_at_once_when_asked_for(
    connection: Connection, first: Holder
) -> None:
    turn = claim(connection, first)
    assert turn is not None
    sources.end_source_turn(connection, turn, next_in=timedelta(hours=1), error="the source is away")
    assert claim(connection, first) is None
    [known] = sources.list_sources(connection)
    assert (known.failure_count, known.last_error) == (1, "the source is away")
    again = claim(connection, first, is_asked_for=True)
    assert again is not None
    assert again.failure_count == 1
    sources.end_source_turn(connection, again, next_in=timedelta(0))
    [known] = sources.list_sources(connection)
    assert (known.failure_count, known.last_error) == (0, None)


def test_two_pipelines_on_one_table_do_not_touch_each_other(connection: Connection, first: Holder) -> None:
    turn = claim(connection, first)
    other = sources.claim_source(connection, "copy", NAMES[1], first, lease_seconds=60)
    assert turn is not None
    assert other is not None
    advance(connection, turn, 7)
    assert [(known.pipeline_name, known.watermark) for known in sources.list_sources(connection)] == [
        ("copy", None),
        ("historian", {"at": 7}),
    ]


def test_pausing_and_resetting_end_the_turn_and_are_written_down(
    connection: Connection, first: Holder
) -> None:
    for decision in (SourceDecision.PAUSED, SourceDecision.RESET):
        turn = claim(connection, first, is_asked_for=True)
        assert turn is not None
        sources.decide_source(
            connection, *NAMES, decision, reason="maintenance", by="alice", watermark={"at": 5}
        )
        with pytest.raises(LeaseLostError):
            advance(connection, turn, 9)
        if decision is SourceDecision.PAUSED:
            assert claim(connection, first, is_asked_for=True) is None
            sources.decide_source(connection, *NAMES, SourceDecision.RESUMED, reason="done", by="alice")
    turn = claim(connection, first)
    assert turn is not None
    assert turn.watermark == {"at": 5}
    happened = connection.execute(
        """
        select event_type::text, metadata ->> 'by' from disarray.ingest_event
        where event_type::text like 'source%' order by event_id
        """
    ).fetchall()
    assert happened == [("source_paused", "alice"), ("source_resumed", "alice"), ("source_reset", "alice")]
