"""A plant in which every table of the catalog has rows: files of every fate, a ledger, deliveries, events, a move."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from disarray.control import (
    blacklist,
    claim_ends,
    claims,
    connections,
    deliveries,
    sources,
    subject_commits,
)
from disarray.control.connections import transaction
from disarray.control.deliveries import BatchCounts
from disarray.sources.delivering import write_batch
from disarray.sources.inbox import InboxSettings
from disarray.worker.process.scheduler import Scheduler
from tests.blocks import SEGMENTS_PER_BLOCK, set_block_length
from tests.sources.conftest import DATASET as HISTORIAN
from tests.sources.conftest import table_of
from tests.sources.inbox_plant import DATASET as PRESS
from tests.sources.inbox_plant import InboxPlant, event
from tests.worker.conftest import DATASET as TOOLS
from tests.worker.test_moves import CELLS, cell

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 10, 1, tzinfo=UTC)
HEADER = "time,watts,good\n"
_LATE_IS_PARKED = TOOLS.replace("key = []", 'key = []\nhorizon = "5 h"')
_OTHERS = CELLS + HISTORIAN + PRESS
DESCRIPTION = _LATE_IS_PARKED + _OTHERS
# As it was when a file came that no dataset takes any more.
FORMER_DESCRIPTION = _LATE_IS_PARKED.replace('"**/*.csv"', '"**/*.csv", "**/*.old"') + _OTHERS


def lines(*hours: float, rows: int = 6) -> str:
    """Readings nine minutes apart, from each of these hours on."""
    return "".join(
        f"{(START + timedelta(hours=hour, minutes=9 * row)).isoformat()},{hour + row / 8},{row % 3}\n"
        for hour in hours
        for row in range(rows)
    )


def build(root: Path, dsn: str) -> InboxPlant:
    """The plant, filled and at rest but for a file that is on its way from one subject to another."""
    with connections.connect(dsn) as connection:
        # What is carried from block to block has rows only where there are several.
        set_block_length(connection, min(SEGMENTS_PER_BLOCK, 3))
    plant = InboxPlant(root, dsn, description=FORMER_DESCRIPTION)
    plant.place = replace(plant.place, inbox_settings=InboxSettings(max_attempts=1))
    plant.ingest(plant.write("T3/forgotten.old", HEADER + lines(2)))
    plant.redefine(DESCRIPTION)
    _files(plant)
    _late_files(plant)
    _deliver_rows(plant)
    plant.record([event(1), event(2), event(3, tool=None)])
    plant.deliver()
    with plant.pool.connection() as connection:
        subject_commits.follow_commits(connection, "mirror", "T5", "tools")
    _begin_move(plant)
    return plant


def _files(plant: InboxPlant) -> None:
    """A file that grew, a copy, one with rejected lines, one parked, one refused, two that disagree, a dead letter."""
    grown = plant.write("T1/grown.csv", HEADER + lines(8))
    plant.ingest(grown)
    grown.write_text(HEADER + lines(8) + lines(8.05, 9, 10))
    plant.ingest(grown, plant.write("T1/copy.csv", HEADER + lines(8)))
    plant.ingest(plant.write("T1/rejected.csv", HEADER + lines(11) + "yesterday,1,1\n,2,2\n"))
    plant.ingest(plant.write("T1/parked.csv", HEADER + lines(0, 10.5)))
    refused = plant.write("T2/refused.csv", HEADER + lines(3))
    plant.ingest(refused, plant.write("T2/allowed.csv", HEADER + lines(4, 5)))
    plant.ingest(plant.write("T2/other.csv", HEADER + lines(4).replace(",1\n", ",7\n")))
    plant.notify(plant.write("T2/dead.csv", HEADER + lines(6)))
    with plant.pool.connection() as connection:
        items = claims.fetch_items(connection, plant.place.holder)
        failures = [
            claim_ends.Failure(item.queue_id, "it cannot be read", is_permanent=True) for item in items
        ]
        claim_ends.fail_items(connection, failures, plant.place.holder)
        blacklist.blacklist_file(connection, str(refused), "T2", reason="a test", by="tester")
    plant.drain()


def _late_files(plant: InboxPlant) -> None:
    """Two files that are late one after the other: both restate the newest value."""
    plant.ingest(plant.write("T5/day.csv", HEADER + lines(8, 10, 11)))
    plant.ingest(plant.write("T5/late.csv", HEADER + lines(9)))
    plant.ingest(plant.write("T5/later.csv", HEADER + lines(8.03)))


def _deliver_rows(plant: InboxPlant) -> None:
    """Two batches of a table source, one of them late."""
    assert plant.place.landing is not None
    for number, minutes in enumerate((0.0, 90.0)):
        with plant.pool.connection() as connection:
            turn = sources.claim_source(
                connection, "historian", "readings", plant.place.holder, lease_seconds=60, is_asked_for=True
            )
            assert turn is not None
            batch = deliveries.begin_batch(connection, "historian", run_id=uuid.uuid4())
            rows = table_of([(2 * number, minutes, 1.5), (2 * number + 1, minutes + 1, 2.5)])
            files = write_batch(
                plant.place.landing,
                batch,
                {"TOOL07": rows},
                dataset="historian",
                datasets=plant.datasets.values(),
            )
            counts = BatchCounts(seen=3, taken=2, duplicate=1)
            with transaction(connection):
                sources.advance_source(
                    connection,
                    turn,
                    run_id=batch.run_id,
                    watermark={"id": 2 * number + 1},
                    counts=counts,
                    layout={"id": "int64"},
                    cursor_to=str(2 * number + 1),
                )
                deliveries.record_deliveries(
                    connection,
                    batch,
                    files,
                    dataset="historian",
                    counts=counts,
                    instance_name="Worker01",
                    cursor_from=str(2 * number),
                    cursor_to=str(2 * number + 1),
                )
            sources.end_source_turn(connection, turn, next_in=timedelta(hours=1))
        plant.drain()


def _begin_move(plant: InboxPlant) -> None:
    """A file whose preamble names another subject now: read there, and still to leave the first."""
    path = plant.write("cells/1.txt", cell("CELL-A", 1, 2))
    plant.notify_as(path, "CELL-A", dataset="cells")
    plant.drain()
    path.write_text(cell("CELL-B", 1, 2))
    plant.notify_as(path, "CELL-B", dataset="cells")
    Scheduler(plant.place).process_batch()
    assert plant.rows("select subject_key from disarray.moving_file") == [("CELL-A",)]
