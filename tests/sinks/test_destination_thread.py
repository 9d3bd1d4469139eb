"""A destination in its thread: what this worker commits is loaded at once."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from disarray.sinks.destination_loader import LoaderSettings
from disarray.worker.process.loading import DestinationThread
from disarray.worker.process.scheduler import Scheduler
from tests.sinks.destination_plant import DestinationPlant
from tests.sinks.test_destination_repairs import described
from tests.worker.deliveries import deliveries

if TYPE_CHECKING:
    from pathlib import Path

MOST_SECONDS = 120.0


def test_a_commit_of_this_worker_wakes_its_destinations(tmp_path: Path, dsn: str, target_dsn: str) -> None:
    plant = DestinationPlant(tmp_path, dsn, description=described("other_upsert"), target_dsn=target_dsn)
    [loader] = plant.loaders.values()
    object.__setattr__(loader, "settings", LoaderSettings(every_seconds=3600.0))
    scheduler = Scheduler(plant.place)
    thread, stop = DestinationThread(loader, scheduler.breaker), threading.Event()
    scheduler.followers.append(thread.wake)
    running = threading.Thread(target=thread.run, args=(stop,))
    running.start()
    try:
        for each in deliveries(4)[:2]:
            plant.notify(plant.write(each.name, each.text))
            assert any(report.committed for report in scheduler.drain())
            end = time.monotonic() + MOST_SECONDS
            while is_behind(plant):
                assert time.monotonic() < end, "it sleeps until its next hour"
                time.sleep(0.02)
        assert plant.differences() == {}
    finally:
        stop.set()
        thread.wake()
        running.join()
        plant.pool.close()


def is_behind(plant: DestinationPlant) -> bool:
    [(state,)] = plant.rows("select lag_commits from disarray.list_destinations()")
    return state != 0
