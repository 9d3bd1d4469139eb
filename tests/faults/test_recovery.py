"""A worker dies while it makes up for a fault, renews its leases or gives work back: its next life goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from disarray.worker.process.scheduler import Scheduler
from tests.faults.site import assert_sound
from tests.processes import eventually

if TYPE_CHECKING:
    from tests.faults.site import Site
    from tests.faults.watcher import Watcher

pytestmark = pytest.mark.postgres

# Steps that come only after something went wrong, with what has to go wrong first.
AFTER_A_FAULT = {
    "commit.settling": "commit.before_commit=drop",
    "release.before": "commit.before_commit=drop",
    "release.after": "commit.before_commit=drop",
}
OPEN_SHIFTS = ("reconcile.before", "reconcile.after")
GIVEN_BACK = ("fail.before", "fail.after")
RENEWAL = "lease.before_renewal"


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
