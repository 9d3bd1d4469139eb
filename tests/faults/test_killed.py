"""A worker is killed at every step of a pass, and again when it tries again: nothing is lost, doubled or half-seen."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.faults.site import assert_sound

if TYPE_CHECKING:
    from tests.faults.site import Site
    from tests.faults.watcher import Watcher

pytestmark = pytest.mark.postgres

KILLED = (
    "start.registered",
    "claim.before",
    "claim.after",
    "read.before",
    "read.file",
    "read.mid",
    "read.written",
    "read.after",
    "plan.after",
    "scan.segment",
    "scan.after",
    "commit.before_begin",
    "commit.begun",
    "commit.rows_cleared",
    "commit.values_numbered",
    "commit.rows_copied",
    "commit.stated",
    "commit.before_commit",
    "commit.after_commit",
)
# Steps of which one pass has several.
COME_AGAIN = (
    "read.mid",
    "scan.segment",
    "commit.begun",
    "commit.rows_copied",
    "commit.stated",
    "commit.before_commit",
    "commit.after_commit",
)


@pytest.mark.parametrize("lives", [1, pytest.param(2, marks=pytest.mark.long)], ids=["once", "twice"])
@pytest.mark.parametrize("point", KILLED)
def test_a_worker_killed_at_any_step_loses_doubles_and_half_shows_nothing(
    site: Site, watcher: Watcher, point: str, lives: int
) -> None:
    site.deliveries.deliver_batch()
    for _ in range(lives):
        life = site.live_until_struck(f"{point}=kill")
        assert (life.code, life.strikes) == (-signal.SIGKILL, [(point, "kill")]), life.log
    assert_sound(site, watcher)


@pytest.mark.long
@pytest.mark.parametrize("point", COME_AGAIN)
def test_a_worker_killed_when_a_step_comes_a_second_time_keeps_what_the_first_has_done(
    site: Site, watcher: Watcher, point: str
) -> None:
    site.deliveries.deliver_batch()
    life = site.live_until_struck(f"{point}=kill@2")
    assert life.strikes in ([(point, "kill")], []), life.log  # all of a batch may be in one step
    assert_sound(site, watcher)
