"""The factory of the demo is in the disarray that it claims, and the same for the same seed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from disarray.demo.factory import LATE_TOOL, Factory, out_of_order_percent


def factory(seed: int = 7) -> Factory:
    """The factory of the demo, whose reports have few parts: when they land has nothing to do with it."""
    return Factory(tools=20, days=24, seed=seed, seconds_a_part=1800)


FACTORY = factory()


def test_the_same_seed_gives_the_same_files() -> None:
    assert FACTORY.arrivals() == factory().arrivals()
    assert FACTORY.arrivals() != factory(seed=8).arrivals()


@pytest.mark.parametrize("seed", [7, 8, 9])
def test_38_percent_land_out_of_order_with_a_tail_of_40_minutes(seed: int) -> None:
    arrivals = factory(seed).arrivals()
    held_up = [arrival.at - arrival.ends for arrival in arrivals if not arrival.is_copy]

    assert 37 <= out_of_order_percent(arrivals) <= 39
    assert timedelta(minutes=38) < max(held_up) <= timedelta(minutes=40)


def test_arrivals_in_order_are_not_called_disorder() -> None:
    arrivals = sorted(FACTORY.arrivals(), key=lambda arrival: arrival.ends)

    assert out_of_order_percent(arrivals) == 0


def test_some_files_land_twice_and_some_half_written() -> None:
    arrivals = FACTORY.arrivals()
    texts = {arrival.name: arrival.text for arrival in arrivals}

    assert any(arrival.is_copy for arrival in arrivals)
    assert any(texts[arrival.name] != arrival.text for arrival in arrivals)


def test_the_backlog_is_two_days_of_one_tool_and_nothing_else_of_them_lands() -> None:
    backlog = FACTORY.backlog()

    assert {arrival.name.partition("/")[0] for arrival in backlog} == {LATE_TOOL}
    assert len(backlog) == 12
    assert not {arrival.name for arrival in backlog} & {arrival.name for arrival in FACTORY.arrivals()}
