"""A worker is killed at every step of a pass, and again when it tries again: nothing is lost, doubled or half-seen."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from disarray.worker.process.scheduler import Scheduler
from tests.processes import eventually

if TYPE_CHECKING:
    from tests.faults.conftest import Site
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
# Where an error is worth something other than a death: the process goes on, or ends in good order.
FAILED = (
    "claim.after",
    "read.before",
    "read.mid",
    "read.written",
    "plan.after",
    "scan.segment",
    "commit.before_begin",
    "commit.rows_copied",
    "commit.stated",
    "commit.before_commit",
    "commit.after_commit",
)
CUT = (
    "claim.before",
    "claim.after",
    "plan.after",
    "commit.before_begin",
    "commit.begun",
    "commit.rows_cleared",
    "commit.rows_copied",
    "commit.stated",
    "commit.before_commit",
)
# Steps that come only after something went wrong, with what has to go wrong first.
AFTER_A_FAULT = {
    "commit.settling": "commit.before_commit=drop",
    "release.before": "commit.before_commit=drop",
    "release.after": "commit.before_commit=drop",
}
OPEN_SHIFTS = ("reconcile.before", "reconcile.after")
GIVEN_BACK = ("fail.before", "fail.after")
RENEWAL = "lease.before_renewal"


def assert_sound(site: Site, watcher: Watcher) -> None:
    """Once faults stop the backlog drains, and everything is as if there had been none."""
    site.heal()
    site.deliveries.note_versions()
    assert site.problems() == []
    assert watcher.problems() == []
    assert watcher.sights, "nobody looked"


@pytest.mark.parametrize("lives", [1, pytest.param(2, marks=pytest.mark.slow)], ids=["once", "twice"])
@pytest.mark.parametrize("point", KILLED)
def test_a_worker_killed_at_any_step_loses_doubles_and_half_shows_nothing(
    site: Site, watcher: Watcher, point: str, lives: int
) -> None:
    site.deliveries.deliver_batch()
    for _ in range(lives):
        life = site.live_until_struck(f"{point}=kill")
        assert (life.code, life.strikes) == (-signal.SIGKILL, [(point, "kill")]), life.log
    assert_sound(site, watcher)


@pytest.mark.slow
@pytest.mark.parametrize("point", COME_AGAIN)
def test_a_worker_killed_when_a_step_comes_a_second_time_keeps_what_the_first_has_done(
    site: Site, watcher: Watcher, point: str
) -> None:
    site.deliveries.deliver_batch()
    life = site.live_until_struck(f"{point}=kill@2")
    assert life.strikes in ([(point, "kill")], []), life.log  # all of a batch may be in one step
    assert_sound(site, watcher)


@pytest.mark.slow
@pytest.mark.parametrize("point", FAILED)
def test_a_step_that_fails_is_tried_again_and_the_rest_goes_on(
    site: Site, watcher: Watcher, point: str
) -> None:
    site.deliveries.deliver_batch()
    life = site.live_until_struck(f"{point}=raise")
    assert life.strikes == [(point, "raise")], life.log
    assert_sound(site, watcher)


@pytest.mark.slow
@pytest.mark.parametrize("point", CUT)
def test_a_connection_that_breaks_at_any_step_changes_nothing_or_all(
    site: Site, watcher: Watcher, point: str
) -> None:
    site.deliveries.deliver_batch()
    life = site.live_until_struck(f"{point}=drop")
    assert life.strikes == [(point, "drop")], life.log
    assert life.code is None, f"a worker outlives its connection\n{life.log}"
    assert_sound(site, watcher)


@pytest.mark.parametrize("point", AFTER_A_FAULT)
def test_a_worker_killed_while_it_cleans_up_after_a_fault_leaves_the_rest_to_its_next_life(
    site: Site, watcher: Watcher, point: str
) -> None:
    site.deliveries.deliver_batch()
    life = site.live_until_struck(f"{AFTER_A_FAULT[point]};{point}=kill")
    assert life.strikes[-1] == (point, "kill"), life.log
    assert_sound(site, watcher)


@pytest.mark.parametrize("point", OPEN_SHIFTS)
@pytest.mark.parametrize("action", ["kill", "raise", "drop"])
def test_a_shift_that_was_left_open_is_done_however_often_it_is_broken_off(
    site: Site, watcher: Watcher, point: str, action: str
) -> None:
    site.deliveries.deliver_batch()
    site.plant.place = replace(site.plant.place, max_shift_rows=0)
    former = Scheduler(site.plant.place)
    assert former.process_batch() is not None
    former.release_held()
    assert site.plant.rows("select 1 from disarray.dirty_range where resolved_at is null")
    life = site.live_until_struck(f"{point}={action}")
    assert life.strikes == [(point, action)], life.log
    assert_sound(site, watcher)


@pytest.mark.parametrize("point", GIVEN_BACK)
@pytest.mark.parametrize("action", ["kill", "drop"])
def test_a_file_that_is_gone_for_a_moment_is_given_back_whatever_happens_to_the_answer(
    site: Site, watcher: Watcher, point: str, action: str
) -> None:
    site.deliveries.deliver_batch()
    gone = site.deliveries.sources["content/L1/2.csv"]
    gone.path.unlink()
    life = site.start(armed=f"{point}={action}")
    eventually(lambda: life.is_over or life.strikes)
    gone.path.write_text(gone.text)
    assert life.strikes == [(point, action)], life.log
    assert_sound(site, watcher)


def test_a_worker_killed_as_it_renews_its_leases_loses_nothing(site: Site, watcher: Watcher) -> None:
    site.set('lease = "5 min"', 'lease = "6 s"')
    site.deliveries.deliver_batch()
    life = site.live_until_struck(f"plan.after=sleep:5;{RENEWAL}=kill")
    assert life.strikes[-1] == (RENEWAL, "kill"), life.log
    site.set('lease = "6 s"', 'lease = "5 min"')
    assert_sound(site, watcher)
