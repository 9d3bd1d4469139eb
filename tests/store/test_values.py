"""Values at instants, against a fold of all readings from the first on, bit for bit where it is exact."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.errors import (
    DefinitionChangedError,
    InvalidRequestError,
    ReadingsGoneError,
    UnknownNameError,
)
from disarray.model.duration import HOUR, MINUTE, SECOND
from disarray.model.segments import microseconds_of
from disarray.queries.metric_values import series, value_at

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.model.description.metrics import Metric
    from disarray.queries.metric_values import Value, Values
    from tests.plant import Plant

pytestmark = pytest.mark.postgres

START = datetime(2026, 10, 1, tzinfo=UTC)
START_US = microseconds_of(START)


@dataclass(frozen=True)
class Row:
    at_us: int
    slot: str
    amps: float | None
    good: int
    job: str

    def text(self) -> str:
        at = START + timedelta(microseconds=self.at_us - START_US)
        return (
            f"{at.isoformat()},{self.slot},{'' if self.amps is None else self.amps},{self.good},{self.job}\n"
        )


def rows_of(seed: int, *, hours: tuple[int, ...], slots: str = "ab") -> list[Row]:
    """Readings at odd seconds, with gaps, missing amps and jobs that change inside and between hours."""
    chance = random.Random(seed)
    rows = []
    for hour in hours:
        for slot in slots:
            for second in sorted(chance.sample(range(120, 3300), 25)):
                at_us = START_US + hour * HOUR + second * SECOND
                amps = None if chance.random() < 0.1 else chance.randrange(-400, 400) / 8
                rows.append(
                    Row(at_us, slot, amps, chance.randrange(-1, 3), f"J{(hour * 4 + second // 900) // 6}")
                )
    return sorted(rows, key=lambda row: (row.at_us, row.slot))


def write(plant: Plant, name: str, rows: list[Row]) -> Path:
    return plant.write(name, "time,slot,amps,good,job\n" + "".join(row.text() for row in rows))


def expected(metric: str, rows: list[Row], slot: str, at_us: int) -> tuple[float | None, int] | None:
    """The metric after the last reading at or before an instant, by one loop over the whole history."""
    value: float | None = None if metric == "peak" else 0
    last: Row | None = None
    point: Row | None = None
    for row in rows:
        if row.slot != slot or row.at_us > at_us:
            continue
        if metric == "good_total":
            value = (value or 0) + row.good
        elif metric == "good_in_job":
            value = row.good + (0 if last is None or last.job != row.job else value or 0)
        elif metric == "peak":
            if row.good > 0 and row.amps is not None:
                value = row.amps if value is None else max(value, row.amps)
        elif row.amps is not None:
            assert value is not None
            if point is not None and point.amps is not None:
                if metric == "highest":
                    value += row.amps if row.amps < point.amps else row.amps - point.amps
                elif row.at_us - point.at_us <= 30 * MINUTE:
                    value += (point.amps + row.amps) * 0.5 * ((row.at_us - point.at_us) / 1e6)
            point = row
        last = row
    return None if last is None else (value, last.at_us)


def metric_of(plant: Plant, name: str) -> Metric:
    return next(metric for metric in plant.datasets["cells"].metrics if metric.name == name)


def value(plant: Plant, name: str, at_us: int | None = None, channel: str | None = None) -> Values:
    with plant.pool.connection() as connection:
        return value_at(
            connection,
            plant.place.lake,
            dataset=plant.datasets["cells"],
            subject_key="C1",
            metric=metric_of(plant, name),
            channel=channel,
            at_us=at_us,
        )


METRICS = ("charge", "good_total", "good_in_job", "peak", "highest")


def check(found: Value, metric: str, rows: list[Row]) -> None:
    wanted = expected(metric, rows, found.channel, found.at_us)
    assert wanted is not None
    # Inputs are eighths and whole seconds, so that every sum is exact and its order does not matter.
    assert (found.number, found.reading_us) == wanted, (metric, found)


@pytest.mark.parametrize("metric", METRICS)
def test_a_value_at_any_instant_is_the_fold_of_all_readings_up_to_it(plant: Plant, metric: str) -> None:
    rows = rows_of(1, hours=(0, 1, 4))
    plant.ingest(write(plant, "C1/0.csv", rows_of(1, hours=(0, 1, 4))))
    chance = random.Random(2)
    instants = [chance.randrange(START_US, START_US + 6 * HOUR) for _ in range(25)]
    instants += [row.at_us + offset for row in rows[::29] for offset in (-1, 0, 1)]
    for at_us in instants:
        found = {each.channel: each for each in value(plant, metric, at_us).values}
        for slot in "ab":
            if expected(metric, rows, slot, at_us) is None:
                assert slot not in found
            else:
                check(found[slot], metric, rows)


@pytest.mark.parametrize("metric", METRICS)
def test_a_series_tells_the_same_as_its_instants_one_by_one(plant: Plant, metric: str) -> None:
    rows = rows_of(3, hours=(0, 2, 3))
    # In pieces and out of order: two files share each hour.
    plant.ingest(write(plant, "C1/odd.csv", rows[1::2]))
    plant.ingest(write(plant, "C1/even.csv", rows[::2]))
    with plant.pool.connection() as connection:
        found = series(
            connection,
            plant.place.lake,
            dataset=plant.datasets["cells"],
            subject_key="C1",
            metric=metric_of(plant, metric),
            from_us=START_US - HOUR,
            to_us=START_US + 5 * HOUR,
            every_us=7 * MINUTE,
        )
    assert len(found.values) == sum(
        expected(metric, rows, slot, START_US - HOUR + number * 7 * MINUTE) is not None
        for slot in "ab"
        for number in range(6 * 60 // 7 + 1)
    )
    for each in found.values:
        check(each, metric, rows)


def test_no_file_is_read_where_summaries_tell(lake_plant: Plant) -> None:
    plant = lake_plant
    rows = rows_of(4, hours=(0, 1))
    plant.ingest(write(plant, "C1/0.csv", rows))
    for file in plant.place.lake.root.rglob("*.parquet"):
        file.unlink()
    newest = value(plant, "charge")
    assert [each.number for each in newest.values] == [
        expected("charge", rows, slot, rows[-1].at_us + HOUR)[0]  # type: ignore[index]
        for slot in "ab"
    ]
    # The second hour begins at 120 s past: at the full hour the first one's total still holds.
    assert value(plant, "charge", START_US + HOUR).segments_read == 0
    with pytest.raises(ReadingsGoneError, match=r"a file of the lake at .* is not there"):
        value(plant, "charge", START_US + HOUR + 30 * MINUTE)


def test_a_value_inside_a_segment_reads_that_segment_alone(plant: Plant) -> None:
    plant.ingest(write(plant, "C1/0.csv", rows_of(5, hours=tuple(range(8)))))
    assert value(plant, "charge", START_US + 4 * HOUR + 30 * MINUTE).segments_read == 1


def test_one_channel_of_many_can_be_asked_for_and_an_unknown_one_is_answered_with_the_nearest(
    plant: Plant,
) -> None:
    rows = rows_of(6, hours=(0, 1), slots="abc")
    plant.ingest(write(plant, "C1/0.csv", rows))
    [found] = value(plant, "good_total", START_US + HOUR + 20 * MINUTE, "b").values
    check(found, "good_total", rows)
    with pytest.raises(UnknownNameError, match="no channel 'B'; did you mean 'b'"):
        value(plant, "good_total", channel="B")
    assert value(plant, "good_total", START_US, "b").values == ()


def test_a_stale_subject_says_from_when_and_earlier_values_stay_final(plant: Plant) -> None:
    rows = rows_of(7, hours=(0, 1, 2))
    plant.ingest(write(plant, "C1/0.csv", rows))
    assert all(each.is_final for each in value(plant, "charge").values)
    plant.rows(
        f"""
        insert into disarray.dirty_range (subject_key, dataset, range_start, range_end, reason, created_at)
        values ('C1', 'cells', disarray.instant_of({START_US + 2 * HOUR}), 'infinity', 'test', now()) returning 1
        """
    )
    newest, before = value(plant, "charge"), value(plant, "charge", START_US + 2 * HOUR - 1)
    assert newest.stale_from_us == START_US + 2 * HOUR
    assert [each.is_final for each in newest.values] == [False, False]
    assert [each.is_final for each in before.values] == [True, True]


def test_numbers_that_wait_for_a_large_shift_are_not_made_up(plant: Plant) -> None:
    plant.ingest(write(plant, "C1/0.csv", rows_of(8, hours=(0, 1))))
    plant.rows(
        f"update disarray.segment_summary set base_int = null where segment_us = {START_US + HOUR} returning 1"
    )
    assert [each.number for each in value(plant, "good_total").values] == [None, None]
    inside = value(plant, "good_total", START_US + HOUR + 30 * MINUTE)
    assert [each.number for each in inside.values] == [None, None]


def test_numbers_are_not_read_with_a_definition_that_is_not_theirs(plant: Plant) -> None:
    plant.ingest(write(plant, "C1/0.csv", rows_of(9, hours=(0,))))
    former = plant.datasets["cells"]
    plant.redefine(plant.description.read_text().replace('kind = "max"', 'kind = "min"'))
    plant.drain()
    plant.datasets["cells"] = former
    with pytest.raises(DefinitionChangedError, match="of another definition of dataset 'cells'"):
        value(plant, "charge")


def test_a_series_of_too_many_instants_or_none_is_refused(plant: Plant) -> None:
    with plant.pool.connection() as connection, pytest.raises(InvalidRequestError, match="instants"):
        series(
            connection,
            plant.place.lake,
            dataset=plant.datasets["cells"],
            subject_key="C1",
            metric=metric_of(plant, "charge"),
            from_us=START_US,
            to_us=START_US - 1,
            every_us=SECOND,
        )


def test_a_reader_needs_no_more_than_the_role_of_readers(plant: Plant) -> None:
    rows = rows_of(10, hours=(0, 1))
    plant.ingest(write(plant, "C1/0.csv", rows))
    with plant.pool.connection() as connection:
        connection.execute("set role disarray_reader")
        found = value_at(
            connection,
            plant.place.lake,
            dataset=plant.datasets["cells"],
            subject_key="C1",
            metric=metric_of(plant, "charge"),
            at_us=START_US + HOUR + 30 * MINUTE,
        )
        connection.execute("reset role")
    assert found.segments_read == 1
    for each in found.values:
        check(each, "charge", rows)


def test_a_segment_whose_readings_are_no_longer_kept_still_tells_its_ends(lake_plant: Plant) -> None:
    plant = lake_plant
    rows = rows_of(12, hours=(0, 1))
    plant.ingest(write(plant, "C1/0.csv", rows))
    plant.rows("update disarray.fragment set state = 'dropped', dropped_at = now() returning 1")
    for each in value(plant, "charge").values:
        check(each, "charge", rows)
    with pytest.raises(ReadingsGoneError, match="no longer kept"):
        value(plant, "charge", START_US + 30 * MINUTE)
