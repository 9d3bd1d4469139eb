"""Readings with the value of every metric beside them, and where each came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.model.duration import HOUR, MINUTE
from disarray.queries.readings import readings
from tests.store.test_values import METRICS, START_US, expected, rows_of, write

if TYPE_CHECKING:
    from tests.plant import Plant

pytestmark = pytest.mark.postgres


def test_every_reading_carries_its_running_values_and_its_source(plant: Plant) -> None:
    rows = rows_of(11, hours=(0, 1, 3))
    odd, even = write(plant, "C1/odd.csv", rows[1::2]), write(plant, "C1/even.csv", rows[::2])
    plant.ingest(even)
    plant.ingest(odd)
    with plant.pool.connection() as connection:
        found = readings(connection, plant.place.lake, dataset=plant.datasets["cells"], subject_key="C1")
        told = [row for table in found for row in table.to_pylist()]
    assert [(row["channel"], row["amps"], row["good"]) for row in told] == [
        (row.slot, row.amps, row.good) for row in rows
    ]
    for row, source in zip(told, rows, strict=True):
        for metric in METRICS:
            wanted = expected(metric, rows, source.slot, source.at_us)
            assert wanted is not None
            assert row[metric] == wanted[0], (metric, row)
    texts = {str(path): path.read_bytes() for path in (odd, even)}
    for row, source in zip(told, rows, strict=True):
        assert texts[row["source_uri"]][row["position"] :].startswith(source.text().encode())


def test_a_span_is_cut_to_the_microsecond_and_reads_no_other_segment(plant: Plant) -> None:
    rows = rows_of(12, hours=(0, 1, 2, 3))
    plant.ingest(write(plant, "C1/0.csv", rows))
    first_us, end_us = rows[70].at_us, START_US + 2 * HOUR + 40 * MINUTE
    with plant.pool.connection() as connection:
        found = readings(
            connection,
            plant.place.lake,
            dataset=plant.datasets["cells"],
            subject_key="C1",
            from_us=first_us,
            to_us=end_us,
        )
        told = sum(table.num_rows for table in found)
    assert sorted(found.contents) == [START_US + HOUR, START_US + 2 * HOUR]
    assert told == sum(first_us <= row.at_us < end_us for row in rows)


def test_what_was_looked_up_stays_readable_when_a_late_file_comes_in_between(plant: Plant) -> None:
    rows = rows_of(13, hours=(0, 1))
    plant.ingest(write(plant, "C1/0.csv", rows[::2]))
    with plant.pool.connection() as connection:
        found = readings(connection, plant.place.lake, dataset=plant.datasets["cells"], subject_key="C1")
        plant.ingest(write(plant, "C1/late.csv", rows[1::2]))
        told = [row for table in found for row in table.to_pylist()]
    last = [row["good_total"] for row in told if row["channel"] == "a"][-1]
    assert last == sum(row.good for row in rows[::2] if row.slot == "a")
