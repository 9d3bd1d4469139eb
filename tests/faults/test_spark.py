"""The same with Spark: its JVM killed, one of its Python processes killed, and the worker itself, from two seeds."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.site import assert_sound
from tests.faults.test_killed import KILLED
from tests.processes import eventually

if TYPE_CHECKING:
    from tests.faults.lives import Life
    from tests.faults.site import Site
    from tests.faults.watcher import Watcher

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

LONG = 600.0


def start(site: Site, armed: str) -> Life:
    """A worker on Spark. Who heals after it needs none: the numbers do not tell who made them."""
    site.set('runner = "in-process"', 'runner = "spark"')
    site.set("[database]", '[spark]\nmaster = "local[2]"\n[database]')
    life = site.start(armed=armed)
    life.await_(lambda: "W1 (life" in life.log, seconds=LONG)
    site.set('runner = "spark"', 'runner = "in-process"')
    return life


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def test_a_jvm_killed_in_the_middle_of_a_job_takes_the_worker_along_and_nothing_else(
    site: Site, watcher: Watcher
) -> None:
    worker = start(site, "read.file=sleep:8")
    site.deliveries.deliver_batch()
    worker.await_(lambda: worker.strikes, seconds=LONG)
    [jvm] = [pid for pid in children(worker.pid) if "java" in Path(f"/proc/{pid}/cmdline").read_text()]
    os.kill(jvm, signal.SIGKILL)
    assert worker.await_end() == 1
    assert "Spark's JVM ended while it was needed" in worker.log
    assert site.plant.rows("select 1 from disarray.ingest_queue where status = 'claimed'") == []
    assert_sound(site, watcher)


def test_a_file_that_kills_its_python_process_is_a_dead_letter_and_the_worker_lives_on(
    site: Site, watcher: Watcher
) -> None:
    worker = start(site, "read.mid[content/L1/2.csv]=kill")
    site.deliveries.deliver_batch()
    worker.await_(site.is_drained, seconds=LONG)
    deadly = site.deliveries.sources.pop("content/L1/2.csv")
    assert len(worker.strikes) >= 5
    assert site.plant.rows("select source_uri from disarray.file_info where status = 'failed'") == [
        (str(deadly.path),)
    ]
    assert worker.end() == 0, worker.log
    assert_sound(site, watcher)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_worker_on_spark_killed_at_a_step_of_the_seed_loses_nothing(
    site: Site, watcher: Watcher, seed: int
) -> None:
    # Those in which the driver dies; what tasks do is killed above.
    steps = [
        step
        for step in KILLED
        if step.startswith(("claim.after", "read.after", "plan", "scan.after", "commit"))
    ]
    point = random.Random(seed).choice(steps)
    worker = start(site, f"{point}=kill")
    site.deliveries.deliver_batch()
    eventually(lambda: worker.is_over, seconds=LONG)
    assert (worker.code, worker.strikes) == (-signal.SIGKILL, [(point, "kill")]), worker.log
    assert_sound(site, watcher)
