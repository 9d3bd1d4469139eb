"""What operators are afraid of, one story each: zombies, lost replies, a server pulled from under an open pool."""

from __future__ import annotations

import signal
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.faults.site import assert_sound
from tests.reading_lines import HEADER
from tests.wire import Cut, Wire

if TYPE_CHECKING:
    from tests.faults.lives import Life
    from tests.faults.site import Site
    from tests.faults.watcher import Watcher

pytestmark = pytest.mark.postgres

DAY = 86_400.0


@pytest.mark.parametrize("cut", list(Cut), ids=[cut.name.lower() for cut in Cut])
def test_a_commit_whose_reply_is_lost_is_settled_by_its_run_id_and_never_done_twice(
    site: Site, watcher: Watcher, cut: Cut
) -> None:
    site.deliveries.deliver_batch()
    with Wire(site.dsn) as wire:
        wire.armed = cut
        worker = site.start("--dsn", wire.dsn, "worker", "--name", "W1")
        worker.await_(site.is_drained)
        assert worker.end() == 0, worker.log
    assert wire.cuts == 1
    assert ("was lost, and it took effect" in worker.log) == (cut is Cut.AFTER_COMMIT)
    assert_sound(site, watcher)


def freeze(site: Site, point: str) -> Life:
    """A worker that has stopped at a point and says nothing any more, though its connections stand."""
    zombie = site.start(armed=f"{point}=stop")
    zombie.await_(zombie.is_frozen)
    return zombie


def take_over(site: Site) -> Life:
    """Another worker does all that there is, although the first never gave anything back."""
    successor = site.start("worker", "--name", "W2")
    successor.await_(lambda: "W2 (life" in successor.log)
    site.advance(timedelta(minutes=1))  # past the lease
    successor.await_(site.is_drained)
    return successor


@pytest.mark.parametrize(
    "point", ["claim.after", "scan.after", "commit.begun", "commit.stated", "commit.before_commit"]
)
def test_a_zombie_is_fenced_changes_nothing_and_is_never_in_its_successors_way(
    site: Site, watcher: Watcher, point: str
) -> None:
    # In a commit it holds the row of its subject, until the server has had enough: a quarter of the lease.
    site.set('lease = "5 min"', 'lease = "20 s"')
    site.deliveries.deliver_batch()
    zombie = freeze(site, point)
    successor = take_over(site)
    assert zombie.is_frozen()
    runs = site.plant.rows("select instance_name, count(*) from disarray.run group by 1 order by 1")
    before = site.plant.derived()
    zombie.send(signal.SIGCONT)
    assert zombie.end() == 0, zombie.log  # after the pass that it woke up in
    assert successor.end() == 0, successor.log
    assert site.plant.rows("select instance_name, count(*) from disarray.run group by 1 order by 1") == runs
    assert site.plant.derived() == before
    assert_sound(site, watcher)


def test_two_workers_on_one_subject_take_turns_and_never_both_hold_it(site: Site, watcher: Watcher) -> None:
    site.deliveries.deliver_batch()
    workers = [
        site.start("worker", "--name", name, armed="plan.after=sleep:0.2~0.5;commit.stated=sleep:0.2~0.5")
        for name in ("W1", "W2")
    ]
    for number in range(6):
        name = f"content/L1/{10 + number}.csv"
        site.deliveries.write(name, HEADER + site.deliveries.lines(around=90 * number))
        site.deliveries.notify(name)
        time.sleep(0.3)
    for worker in workers:
        worker.await_(site.is_drained)
        assert worker.end() == 0, worker.log
    # Whoever comes later has a higher fence: no run of a former holder was committed after a later one's.
    runs = site.plant.rows("select fence from disarray.run where subject_key = 'L1' order by committed_at")
    fences = [int(str(fence)) for (fence,) in runs]
    assert fences == sorted(fences)
    assert_sound(site, watcher)


def test_a_file_that_kills_its_worker_ends_as_a_dead_letter_while_the_others_flow(
    site: Site, watcher: Watcher
) -> None:
    site.deliveries.deliver_batch()
    deadly = site.deliveries.sources.pop("content/L1/2.csv")
    deaths = 0
    for _ in range(10):
        life = site.live_until_struck("read.file[content/L1/2.csv]=kill")
        if not life.is_over:
            break
        assert life.code == -signal.SIGKILL
        deaths += 1
    assert deaths == 5, "as many as there are attempts"
    assert site.plant.rows(
        "select source_uri from disarray.file_info where status = 'failed' and crash_count > 0"
    ) == [(str(deadly.path),)]
    assert_sound(site, watcher)
    # Mended, it is one request away.
    site.deliveries.sources["content/L1/2.csv"] = deadly
    retried = site.start("dead-letters", "retry", str(deadly.path), "--reason", "mended", "--by", "ada")
    assert retried.await_end() == 0, retried.log
    assert_sound(site, watcher)


def test_a_worker_killed_while_the_server_is_at_its_commit_leaves_no_half_of_it(
    site: Site, watcher: Watcher
) -> None:
    with site.plant.pool.connection() as connection:
        connection.execute(
            """
            create function disarray.test_dawdle() returns trigger language plpgsql
            as 'begin perform pg_sleep(3); return new; end';
            create trigger dawdle before insert on disarray.run for each row
            when (new.instance_name = 'W1') execute function disarray.test_dawdle();
            """
        )
    site.deliveries.deliver_batch()
    worker = site.start()
    worker.await_(lambda: site.plant.rows("select 1 from pg_stat_activity where wait_event = 'PgSleep'"))
    worker.send(signal.SIGKILL)
    worker.await_end()
    with site.plant.pool.connection() as connection:
        connection.execute("drop trigger dawdle on disarray.run")
    assert_sound(site, watcher)


@pytest.mark.parametrize("ahead", [DAY, -DAY], ids=["ahead", "behind"])
def test_hosts_whose_clocks_are_a_day_off_take_in_the_same_numbers(
    site: Site, watcher: Watcher, ahead: float
) -> None:
    site.deliveries.deliver_batch()
    worker = site.start(clock_ahead=ahead)
    worker.await_(site.is_drained)
    assert worker.end() == 0, worker.log
    assert_sound(site, watcher)


def test_housekeeping_on_a_host_whose_clock_is_ahead_leaves_the_files_of_a_run_under_way(
    site: Site, watcher: Watcher
) -> None:
    site.deliveries.deliver_batch()
    running = freeze(site, "scan.after")
    kept_house = site.start("housekeeping", clock_ahead=3 * DAY)
    assert kept_house.await_end() == 0, kept_house.log
    running.send(signal.SIGCONT)
    running.await_(site.is_drained)
    assert running.end() == 0, running.log
    assert_sound(site, watcher)
