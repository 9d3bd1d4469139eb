"""A plant whose dataset is fed by a source."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from disarray.control import connections, deliveries
from disarray.control.deliveries import BatchCounts
from disarray.sources.delivering import write_batch
from disarray.sources.landing import Landing
from tests.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from disarray.control.deliveries import DeliveredFile

SOURCE = "historian"
DATASET = """
[[dataset]]
name = "historian"
roots = ["landing/historian"]
files = ["**/*.parquet"]
format = "parquet"
subject = { delivery = "folders" }
event_time = { from = "at", layouts = ["iso"] }
zone = "UTC"
segment = "1 h"
restate_after = "0 s"
key = ["id"]
[dataset.columns.id]
type = "int64"
[dataset.columns.watts]
type = "float64"
[dataset.metrics.total]
kind = "sum"
input = "watts"
"""
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)

# id, minutes after noon, watts
Row = tuple[int, float, float]


class DeliveredPlant(Plant):
    """A plant with a landing folder, and a source that says whatever a test wants it to say."""

    def __init__(self, root: Path, dsn: str, *, description: str = DATASET) -> None:
        super().__init__(root, dsn, description=description)
        self.landing = Landing(root / "landing")
        self.place = replace(self.place, landing=self.landing)

    def write(self, parts: Mapping[str, Sequence[Row]]) -> tuple[deliveries.Batch, list[DeliveredFile]]:  # type: ignore[override]
        """Write the files of a batch, and name them nowhere."""
        with self.pool.connection() as connection:
            batch = deliveries.begin_batch(connection, SOURCE, run_id=uuid.uuid4())
        tables = {subject: table_of(rows) for subject, rows in parts.items()}
        files = write_batch(self.landing, batch, tables, dataset="historian", datasets=self.datasets.values())
        return batch, files

    def deliver(self, parts: Mapping[str, Sequence[Row]]) -> list[str]:
        """Write a batch and record it; the uris of its files."""
        batch, files = self.write(parts)
        rows = sum(file.rows for file in files)
        with self.pool.connection() as connection, connections.transaction(connection):
            deliveries.record_deliveries(
                connection,
                batch,
                files,
                dataset="historian",
                counts=BatchCounts(seen=rows, taken=rows),
                instance_name="Worker01",
                cursor_from="1",
                cursor_to=str(rows),
            )
        return [file.source_uri for file in files]

    def total(self, subject: str = "TOOL07") -> float:
        """The newest value of the metric."""
        [(value,)] = self.rows(
            f"""
            select base_float + total_float from disarray.segment_metric
            where subject_key = '{subject}' order by segment_us desc limit 1
            """
        ) or [(0.0,)]
        assert isinstance(value, float)
        return value


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as a source would hand them over."""
    return pa.table(
        {
            "id": pa.array([row[0] for row in rows], pa.int64()),
            "at": pa.array([NOON + timedelta(minutes=row[1]) for row in rows], pa.timestamp("us", tz="UTC")),
            "watts": pa.array([row[2] for row in rows], pa.float64()),
        }
    )


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[DeliveredPlant]:
    """A small plant with one worker and one source."""
    built = DeliveredPlant(tmp_path, dsn)
    yield built
    built.pool.close()
