"""Buckets from their parts, against the plain definition over all readings."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest

from disarray.model.duration import DAY, HOUR, MINUTE
from disarray.queries.rollup_buckets import rollup
from tests.store.test_values import START_US, rows_of, write

if TYPE_CHECKING:
    from disarray.queries.rollup_buckets import RolledUp
    from tests.plant import Plant

pytestmark = pytest.mark.postgres


def rolled_up(plant: Plant, name: str, from_us: int, to_us: int) -> RolledUp:
    dataset = plant.datasets["cells"]
    [wanted] = [each for each in dataset.rollups if each.name == name]
    with plant.pool.connection() as connection:
        return rollup(
            connection, dataset=dataset, subject_key="C1", rollup=wanted, from_us=from_us, to_us=to_us
        )


def test_a_bucket_is_what_its_readings_say(plant: Plant) -> None:
    rows = rows_of(21, hours=(0, 1, 2))
    plant.ingest(write(plant, "C1/odd.csv", rows[1::2]))
    plant.ingest(write(plant, "C1/even.csv", rows[::2]))
    found = rolled_up(plant, "quarters", START_US, START_US + 3 * HOUR)
    assert sum(bucket.numbers["readings"] or 0 for bucket in found.buckets) == len(rows)
    for bucket in found.buckets:
        inside = [
            row for row in rows if row.slot == bucket.channel and bucket.start_us <= row.at_us < bucket.end_us
        ]
        amps = [row.amps for row in inside if row.amps is not None]
        assert bucket.numbers["readings"] == len(inside)
        assert bucket.numbers["mean"] == pytest.approx(statistics.fmean(amps))
        if len(amps) > 1:
            assert bucket.numbers["spread"] == pytest.approx(statistics.stdev(amps))
        else:
            assert bucket.numbers["spread"] is None


def test_a_bucket_that_crosses_segments_is_put_together_in_order_of_time(plant: Plant) -> None:
    rows = rows_of(22, hours=(0, 5, 23, 24))
    plant.ingest(write(plant, "C1/0.csv", rows))
    first, second = [
        bucket
        for bucket in rolled_up(plant, "daily", START_US, START_US + 2 * DAY).buckets
        if bucket.channel == "a"
    ]
    today = [row for row in rows if row.slot == "a" and row.at_us < START_US + DAY]
    assert first.numbers["good"] == sum(row.good for row in today)
    assert first.numbers["last"] == [row.amps for row in today if row.amps is not None][-1]
    assert (second.start_us, second.end_us) == (START_US + DAY, START_US + 2 * DAY)


def test_buckets_that_end_before_what_is_stale_are_final(plant: Plant) -> None:
    plant.ingest(write(plant, "C1/0.csv", rows_of(23, hours=(0, 1))))
    plant.rows(
        f"""
        insert into disarray.dirty_range (subject_key, range_start, range_end, reason, created_at)
        values ('C1', disarray.instant_of({START_US + HOUR}), 'infinity', 'test', now()) returning 1
        """
    )
    found = rolled_up(plant, "quarters", START_US, START_US + 2 * HOUR)
    assert found.stale_from_us == START_US + HOUR
    assert {bucket.is_final for bucket in found.buckets if bucket.end_us <= START_US + HOUR} == {True}
    assert {bucket.is_final for bucket in found.buckets if bucket.start_us >= START_US + HOUR} == {False}
    only = rolled_up(plant, "quarters", START_US + 30 * MINUTE, START_US + 45 * MINUTE)
    assert {bucket.start_us for bucket in only.buckets} == {START_US + 30 * MINUTE}
