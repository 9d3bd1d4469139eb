"""Whether a table says what the lake says: every bit, folds, order and sources included; and its view as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from disarray.control import catalog
from disarray.kernels.fragments.ordering import digest_table
from disarray.model.segments import FIRST_US, LAST_US
from disarray.queries.readings import readings
from disarray.store.lake_readings import LakeReadings
from disarray.store.segments import look_up_segments
from disarray.store.timescale import TableReadings

if TYPE_CHECKING:
    from disarray.model.description.dataset import Dataset
    from tests.plant import Plant


def assert_stores_agree(plant: Plant, dataset: Dataset, subject_key: str) -> None:
    """Compare what both stores hold of a subject; nothing to do for a dataset without a table."""
    if dataset.name not in plant.tables():
        return
    with plant.pool.connection() as connection:
        entries = catalog.load_segments(
            connection, dataset.name, subject_key, from_us=FIRST_US, to_us=LAST_US
        )
        contents = look_up_segments(
            connection, dataset, subject_key, segments=[entry.segment_us for entry in entries]
        )
        for content in contents.values():
            in_table = TableReadings.of(connection, dataset).read(subject_key, content)
            in_lake = LakeReadings(plant.place.lake, dataset).read(subject_key, content)
            assert in_table is not None
            assert in_lake is not None
            assert digest_table(in_table.readings) == digest_table(in_lake.readings)
            assert in_table.source_uris.equals(in_lake.source_uris)
            assert in_table.channels == in_lake.channels
            assert np.array_equal(in_table.channel, in_lake.channel)
            for metric in dataset.metrics:
                kept, folded = in_table.locals_of(metric), in_lake.locals_of(metric)
                assert digest_table(pa.table({"": kept.values})) == digest_table(
                    pa.table({"": folded.values})
                )
                assert np.array_equal(kept.waits, folded.waits), metric.name
                assert np.array_equal(kept.restarted, folded.restarted), metric.name
        told = [
            list(row.values())
            for table in readings(connection, plant.place.lake, dataset=dataset, subject_key=subject_key)
            for row in table.to_pylist()
        ]
    shown = plant.rows(
        f"""
        select * from telemetry.{dataset.name}_running
        where subject_key = '{subject_key}' order by event_at, ordinal
        """
    )
    # The view tells beside what the program tells whether it is final, and the place.
    assert repr([[*row[:-4], *row[-3:-1]] for row in shown]).replace(
        "datetime.timezone.utc", "zoneinfo.ZoneInfo(key='UTC')"
    ) == repr(told).replace("datetime.timezone.utc", "zoneinfo.ZoneInfo(key='UTC')")
