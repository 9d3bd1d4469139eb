"""The worker's loop: a pass that gets on keeps its leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import queue
from disarray.worker.ingest import process_items

if TYPE_CHECKING:
    from tests.plant import Plant

pytestmark = pytest.mark.postgres


def test_a_pass_tells_of_reading_planning_scanning_and_every_commit(plant: Plant) -> None:
    row = "time,watts,good\n2026-10-01T00:00:00Z,1.0,1\n"
    plant.notify(plant.write("T1/a.csv", row), plant.write("T2/a.csv", row))
    steps: list[None] = []
    with plant.pool.connection() as connection:
        items = queue.fetch_items(connection, plant.place.holder, queue.FetchPolicy(max_subjects=2))
    process_items(plant.place, items, on_step=lambda: steps.append(None))
    assert len(steps) == 3 + 2
