"""When the agent looks at what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.agent.schedule import Schedule, Tier, parse_tiers
from disarray.agent.settings import agent_settings
from disarray.config import load
from disarray.errors import ConfigError
from disarray.model.duration import DAY, HOUR, LONGEST, MINUTE, SECOND

if TYPE_CHECKING:
    from pathlib import Path

TIERS = parse_tiers("1 h every 0 s, older every 10 min")


def test_tiers_are_read_from_young_to_old() -> None:
    assert parse_tiers("1 h every 1 s, 2 d every 5 min, older every 1 h") == (
        Tier(HOUR, SECOND),
        Tier(2 * DAY, 5 * MINUTE),
        Tier(LONGEST, HOUR),
    )


@pytest.mark.parametrize(
    "text", ["", "1 h", "1 h every 1 s", "older every 1 s, 1 h every 1 s", "2 h every 1 s, 1 h every 1 s"]
)
def test_tiers_that_leave_a_gap_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_tiers(text)


def test_the_young_are_due_at_every_scan_and_the_old_after_their_time() -> None:
    schedule = Schedule(TIERS, scan_every_us=SECOND)
    young, old = (-LONGEST, HOUR), (HOUR, LONGEST)
    assert schedule.begin(0) == (young, old)
    assert schedule.begin(9 * MINUTE) == (young,)
    assert schedule.begin(10 * MINUTE) == (young, old)


def test_a_clock_set_back_makes_everything_due() -> None:
    schedule = Schedule(TIERS, scan_every_us=SECOND)
    schedule.begin(DAY)
    assert len(schedule.begin(0)) == 2


@pytest.mark.parametrize(
    ("listing_us", "has_more", "pause_us"),
    [
        pytest.param(1_000, False, SECOND - 1_000, id="small share"),
        pytest.param(SECOND, False, 9 * SECOND, id="a tenth of the time at most"),
        pytest.param(SECOND, True, 0, id="work left over"),
    ],
)
def test_the_pause_grows_with_the_listing(listing_us: int, has_more: bool, pause_us: int) -> None:
    schedule = Schedule(TIERS, scan_every_us=SECOND)
    schedule.end(DAY, listing_us=listing_us, has_more=has_more)
    assert schedule.until_next_us(DAY) == pytest.approx(pause_us, abs=1)


def test_without_a_word_about_it_small_roots_are_listed_twice_a_second(tmp_path: Path) -> None:
    settings = agent_settings(load(tmp_path, environment={}))
    schedule = Schedule(settings.tiers, scan_every_us=settings.scan_every_us)
    schedule.end(DAY, listing_us=1_000, has_more=False)
    assert schedule.until_next_us(DAY) == SECOND // 2 - 1_000


def test_the_settings_of_an_agent_are_those_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "disarray.toml").write_text(
        '[agent]\nspool_mb = 2\nignore = "*.bak, x*"\nscan_every = "5 s"\n'
    )
    settings = agent_settings(load(tmp_path, environment={}))
    assert (settings.spool_bytes, settings.ignore) == (2_000_000, ("*.bak", "x*"))
    assert (settings.scan_every_us, settings.deep_rescan_us) == (5 * SECOND, 7 * DAY)
    assert settings.tiers == parse_tiers("1 h every 0 s, 7 d every 1 min, older every 10 min")
