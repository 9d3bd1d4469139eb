"""Questions about many channels, timed, and every answer held against what was written."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.channel_files import DAY_US, HOUR_US, START_US, key_of
from disarray.queries.rollups import query_rollup
from disarray.queries.values_of_subjects import query_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from benchmarks.channel_files import Machines
    from benchmarks.plant import Plant

WARM_UPS = 3


def newest_seconds(
    plant: Plant, machines: Machines, totals: Mapping[int, NDArray[np.int64]], *, times: int
) -> list[float]:
    """The newest value of every channel, asked for so many times."""
    expected = {
        (key_of(machine), channel): int(total)
        for machine, own in totals.items()
        for channel, total in zip(machines.channel_names(), own, strict=True)
    }
    datasets = {plant.dataset.name: plant.dataset}
    with plant.connect() as connection:

        def ask(_: int) -> None:
            answer = query_values(
                connection, plant.lake, datasets, metric="total_pulses", limit=machines.count
            )
            found = {
                (own.subject_key, each.channel): each.value for own in answer.subjects for each in own.values
            }
            assert found == expected, _first_difference(found, expected)
            assert all(each.final for own in answer.subjects for each in own.values)

        return _asked(ask, times)


def year_seconds(plant: Plant, machines: Machines, *, days: int, times: int) -> list[float]:
    """Every hour of one channel of the last machine, another channel each time."""
    machine = machines.count - 1
    chosen = [random.Random(7).randrange(machines.channels) for _ in range(WARM_UPS + times)]
    expected = hourly_pulses(machines, machine, days=days)
    datasets = {plant.dataset.name: plant.dataset}
    with plant.connect() as connection:

        def ask(number: int) -> None:
            channel = chosen[number]
            document = query_rollup(
                connection,
                datasets,
                subject_key=key_of(machine),
                rollup="hourly",
                channel=machines.channel_names()[channel],
                from_us=START_US,
                to_us=START_US + days * DAY_US,
            ).document
            found = [each.values["pulses"] for each in document.buckets]
            assert found == expected[:, channel].tolist(), f"channel {channel} of machine {machine}"
            assert {each.channel for each in document.buckets} == {machines.channel_names()[channel]}

        return _asked(ask, times)


def hourly_pulses(machines: Machines, machine: int, *, days: int) -> NDArray[np.int64]:
    """What each channel adds up to, hour by hour: a row for each hour with readings."""
    sums = []
    for day in range(days):
        instants = machines.instants(day)
        hours = (instants - START_US) // HOUR_US
        starts = np.flatnonzero(np.diff(hours, prepend=hours[0] - 1))
        sums.append(np.add.reduceat(machines.pulses(machine, instants), starts, axis=0))
    return np.concatenate(sums)


def rollup_totals(plant: Plant, machine: int) -> dict[str, tuple[int, int]]:
    """By channel of a machine: how many readings all hours together have, and what they add up to."""
    with plant.connect() as connection:
        connection.execute("set statement_timeout = 0")
        rows = connection.execute(
            """
            select channel, sum(points) filter (where aggregate = 'readings'),
                sum(value_int) filter (where aggregate = 'pulses')
            from disarray.rollup
            where (dataset, subject_key, rollup) = (%s, %s, 'hourly')
            group by channel
            """,
            (plant.dataset.name, key_of(machine)),
        ).fetchall()
    return {channel: (int(readings), int(pulses)) for channel, readings, pulses in rows}


def quantiles(seconds: list[float]) -> dict[str, float]:
    """In milliseconds."""
    return {
        "p50_ms": round(float(np.quantile(seconds, 0.5)) * 1000, 2),
        "p99_ms": round(float(np.quantile(seconds, 0.99)) * 1000, 2),
    }


def _asked(ask: Callable[[int], None], times: int) -> list[float]:
    seconds = []
    for number in range(WARM_UPS + times):
        began = time.perf_counter()
        ask(number)
        seconds.append(time.perf_counter() - began)
    return seconds[WARM_UPS:]


def _first_difference(
    found: Mapping[tuple[str, str], object], expected: Mapping[tuple[str, str], int]
) -> str:
    for key in sorted({*found, *expected}):
        if found.get(key) != expected.get(key):
            return f"{key}: {found.get(key)} is stored, {expected.get(key)} was written"
    return ""
