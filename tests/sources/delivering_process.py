"""A process that delivers three batches of one row each, and goes on where a former life of it ended."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from disarray.control import connections, deliveries, instances, sources
from disarray.control.deliveries import BatchCounts
from disarray.formats.loader import load_datasets
from disarray.sources.delivering import commit_batch, write_batch
from disarray.sources.landing import Landing
from tests.sources.conftest import SOURCE, table_of

if TYPE_CHECKING:
    from pathlib import Path

BATCHES = 3


def deliver_all(dsn: str, folder: Path) -> None:
    """Take the turn, deliver what is left, give the turn back."""
    datasets = load_datasets(folder / "disarray.toml")
    with connections.connect(dsn) as connection:
        holder = instances.register_instance(connection, "Puller")
        turn = sources.claim_source(
            connection, SOURCE, "readings", holder, lease_seconds=60, is_asked_for=True
        )
        assert turn is not None
        done = (turn.watermark or {"done": 0})["done"]
        for number in range(done + 1, BATCHES + 1):
            batch = deliveries.begin_batch(connection, SOURCE, run_id=uuid.uuid4())
            rows = {"TOOL07": table_of([(number, number, float(number))])}
            files = write_batch(
                Landing(folder / "landing"), batch, rows, dataset="historian", datasets=datasets
            )
            counts = BatchCounts(seen=1, taken=1)

            def advance(number: int = number, counts: BatchCounts = counts) -> None:
                sources.advance_source(
                    connection, turn, run_id=uuid.uuid4(), watermark={"done": number}, counts=counts
                )

            commit_batch(
                connection,
                batch,
                files,
                advance=advance,
                dataset="historian",
                counts=counts,
                instance_name=holder.instance_name,
            )
        sources.end_source_turn(connection, turn, next_in=timedelta(0))
