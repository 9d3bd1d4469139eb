"""A series says at each instant what `value` says there, and what the readings up to it came to."""

from __future__ import annotations

import os
import random
from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from disarray.model.duration import DAY, HOUR, MINUTE
from disarray.model.segments import LAST_US, datetime_of, microseconds_of
from disarray.queries.names import find_subjects
from disarray.queries.readings import readings
from disarray.queries.series import query_series
from disarray.queries.values import query_value
from tests.arrivals import DATASETS, MINUTES, Arrivals
from tests.plant import Plant
from tests.store.conftest import in_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection
    from disarray.queries.names import SubjectOf

pytestmark = pytest.mark.postgres

# An example is some five histories at once, of a dataset and a subject each.
EXAMPLES = int(os.environ.get("DISARRAY_READING_EXAMPLES", "45"))
SETTINGS = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
IN_TABLES = ("content", "columns")
DEFINED = "".join(
    in_store(text, "timescale") if name in IN_TABLES else text for name, text in DATASETS.items()
)
DEFINED_ANEW = (
    DEFINED.replace('segment = "2 h"', 'segment = "45 min"')
    .replace('max_gap = "40 min"', 'max_gap = "3 min"')
    .replace("metrics.volts_sum", "metrics.sum_of_volts")
)


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory, shared_dsn: str) -> Iterator[Plant]:
    """One plant for all examples, some of its datasets in the lake and some in tables."""
    built = Plant(tmp_path_factory.mktemp("plant"), shared_dsn, description=DEFINED)
    yield built
    built.pool.close()


@settings(SETTINGS, max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_a_series_says_what_value_says_in_some_histories(plant: Plant, seed: int) -> None:
    check_history(plant, seed)


@pytest.mark.slow
@pytest.mark.timeout(max(3600, 30 * EXAMPLES))
@settings(SETTINGS, max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_a_series_says_what_value_says_in_any_history(plant: Plant, seed: int) -> None:
    check_history(plant, seed)


def check_history(plant: Plant, seed: int) -> None:
    chance = random.Random(seed)
    plant.forget_everything()
    plant.redefine(chance.choice([DEFINED, DEFINED, DEFINED_ANEW]), is_on_purpose=True)
    plant.place = replace(plant.place, max_shift_rows=chance.choice([0, 20, 100_000]))
    arrivals = Arrivals(plant, chance)
    arrivals.run()
    if chance.random() < 0.2:
        # Numbers of the former definition, until somebody drains the queue.
        plant.redefine(chance.choice([DEFINED, DEFINED_ANEW]), is_on_purpose=True)
    with plant.pool.connection() as connection:
        for subject in find_subjects(connection, plant.datasets):
            if chance.random() < 0.2:
                make_stale(connection, subject, chance)
            check(connection, plant, subject, chance)


def make_stale(connection: Connection, subject: SubjectOf, chance: random.Random) -> None:
    """As after a commit whose shift is left to a later pass."""
    connection.execute(
        """
        insert into disarray.dirty_range (subject_key, dataset, range_start, range_end, reason, created_at)
        values (%s, %s, %s, 'infinity', 'test', now())
        """,
        (
            subject.subject_key,
            subject.dataset.name,
            datetime_of(chance.randint(subject.first_us, subject.last_us)),
        ),
    )


def check(connection: Connection, plant: Plant, subject: SubjectOf, chance: random.Random) -> None:
    running = running_values(connection, plant, subject)
    for metric in chance.sample(subject.dataset.metrics, k=4):
        asked = {
            "subject_key": subject.subject_key,
            "dataset": subject.dataset.name,
            "metric": metric.name,
            "channel": chance.choice([None, None, *running]),
        }
        every_us = chance.randint(1, 200) * MINUTE
        # From before the first reading to after the last, and often inside a segment before its own first reading.
        span = MINUTES * MINUTE
        from_us = subject.first_us + chance.randint(-3 * HOUR, span)
        to_us = from_us + chance.randint(0, 12) * every_us
        ends = chance.choice(
            [{"from_us": from_us, "to_us": to_us}] * 4 + [{}, {"from_us": from_us}, {"to_us": to_us}]
        )
        series = query_series(
            connection,
            plant.place.lake,
            plant.datasets,
            **(asked | ends),  # type: ignore[arg-type]
            every_us=every_us,
        ).document
        midnight_us = subject.first_us // DAY * DAY
        full_steps = (subject.first_us - midnight_us) // every_us
        begin_us = ends.get("from_us", min(midnight_us + full_steps * every_us, ends.get("to_us", LAST_US)))
        # Where no end is given, the last instant is the first at which all readings have been.
        stop_us = ends["to_us"] + 1 if "to_us" in ends else max(subject.last_us + every_us, begin_us + 1)
        instants = range(begin_us, stop_us, every_us)
        channels = running if asked["channel"] is None else [asked["channel"]]
        wanted = [
            (channel, at_us, *running[channel][at_us, metric.name])
            for channel in sorted(channels)
            for at_us in instants
            if (at_us, metric.name) in running[channel]
        ]
        found = [
            (each.channel, microseconds_of(each.at), each.value, microseconds_of(each.reading_at))
            for each in series.values
        ]
        assert repr(found) == repr(wanted), (asked, ends, every_us)
        for at_us in chance.sample(instants, k=min(2, len(instants))):
            value = query_value(
                connection,
                plant.place.lake,
                plant.datasets,
                **asked,  # type: ignore[arg-type]
                at_us=at_us,
            ).document
            at = datetime_of(at_us)
            assert value == replace(series, values=[each for each in series.values if each.at == at])


class Running:
    """The readings of one channel with the value of each metric beside them."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.rows: list[dict[str, Any]] = []

    def __contains__(self, asked: tuple[int, str]) -> bool:
        return bool(bisect_right(self.times, asked[0]))

    def __getitem__(self, asked: tuple[int, str]) -> tuple[int | float | None, int]:
        last = bisect_right(self.times, asked[0]) - 1
        return self.rows[last][asked[1]], self.times[last]


def running_values(connection: Connection, plant: Plant, subject: SubjectOf) -> dict[str, Running]:
    """By channel, from an export of all readings."""
    found: dict[str, Running] = {}
    exported = readings(
        connection, plant.place.lake, dataset=subject.dataset, subject_key=subject.subject_key
    )
    for table in exported:
        for row in table.to_pylist():
            own = found.setdefault(row["channel"], Running())
            own.times.append(microseconds_of(row["event_time"]))
            own.rows.append(row)
    return found
