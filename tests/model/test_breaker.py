"""The circuit breaker: closed, open, half-open, and one line in the log for each change."""

from __future__ import annotations

import logging
import threading

import pytest

from disarray.model.backoff import Backoff
from disarray.model.breaker import Breaker, State


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("the thing", OSError, backoff=Backoff(first_s=1.0, longest_s=8.0), clock=clock)


def fail(breaker: Breaker) -> None:
    with pytest.raises(OSError, match="gone"), breaker.guard():
        raise OSError("gone")


def test_a_failure_opens_it_and_nobody_tries_before_the_time_is_up(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    assert str(breaker.state) == "open"
    assert 0.75 <= breaker.retry_in <= 1.0
    clock.now += 0.5
    assert not _goes(breaker)
    clock.now += 0.6
    assert _goes(breaker)
    assert str(breaker.state) == "half-open"


def test_who_has_something_else_to_do_is_told_at_once(breaker: Breaker, clock: Clock) -> None:
    assert breaker.take_turn()
    fail(breaker)
    assert not breaker.take_turn()
    clock.now += 2
    assert breaker.take_turn()
    assert not breaker.take_turn()  # that was the one trial


def test_while_one_tries_the_others_wait_for_what_comes_of_it(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now += 2
    assert _goes(breaker)
    assert not _goes(breaker)
    breaker.succeeded()
    assert breaker.state is State.CLOSED
    assert _goes(breaker)


def test_a_trial_that_never_ends_does_not_keep_the_others_waiting_for_ever(
    breaker: Breaker, clock: Clock
) -> None:
    fail(breaker)
    clock.now += 2
    assert _goes(breaker)
    clock.now += 31
    assert _goes(breaker)


def test_each_failed_trial_doubles_the_wait_up_to_the_longest(breaker: Breaker) -> None:
    waits = []
    for _ in range(6):
        fail(breaker)
        waits.append(breaker.retry_in)
    assert waits[3] > 3 * waits[0]
    assert max(waits) <= 8.0


def test_a_long_absence_is_two_lines_in_the_log(
    breaker: Breaker, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(20):
        fail(breaker)
        clock.now += 8
    breaker.succeeded()
    assert [record.getMessage() for record in caplog.records] == [
        "the thing is away: gone. Trying again until it is back",
        "the thing is back after 160.0 s and 20 attempts",
    ]


def test_an_error_of_another_kind_says_nothing_about_it(breaker: Breaker) -> None:
    with pytest.raises(ValueError, match="bad"), breaker.guard():
        raise ValueError("bad")
    assert breaker.state is State.CLOSED


def test_who_is_told_to_stop_does_not_wait(breaker: Breaker) -> None:
    fail(breaker)
    stop = threading.Event()
    stop.set()
    assert not breaker.await_turn(stop)


def _goes(breaker: Breaker) -> bool:
    """Whether a try would be let through at this moment."""
    stop = threading.Event()
    threading.Timer(0.02, stop.set).start()
    return breaker.await_turn(stop)
