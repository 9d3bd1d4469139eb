"""How many readings per second of CPU one scan takes, and what overlap and many channels cost beside one sorted file.

    PYTHONPATH=src python -m benchmarks.scan_kernels [rows]

Three metrics (sum, count with `where`, integral) and two rollups over one segment, one thread, the best of seven
after a warm-up. CPU time, so that other work on the machine does not count.
"""

from __future__ import annotations

import json
import sys
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from disarray.kernels.scanning.segment_rows import FragmentInput
from disarray.kernels.scanning.segment_scan import scan_segment
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION, ColumnType
from disarray.model.description.metrics import Metric, MetricKind
from disarray.model.description.read_spec import Key, KeyKind
from disarray.model.description.rollups import Aggregate, AggregateFunction, Bucket, BucketKind, Rollup
from disarray.model.description.scan_spec import ScanSpec
from disarray.model.duration import DAY, HOUR, MINUTE
from disarray.model.expression.parser import parse_expression
from disarray.model.segments import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

START_US = 1_792_886_400_000_000
SEGMENT = Segment(START_US, START_US + DAY)


def spec(*, has_channel: bool = False) -> ScanSpec:
    """Three metrics and two rollups over amps, volts, temperature and a state."""
    amps, volts = parse_expression("amps"), parse_expression("volts")
    return ScanSpec(
        subject="TOOL07",
        columns={
            "amps": ColumnType.FLOAT64,
            "volts": ColumnType.FLOAT64,
            "temperature": ColumnType.FLOAT64,
            "state": ColumnType.INT64,
        },
        has_channel=has_channel,
        order_by=(),
        key=Key(KeyKind.CONTENT),
        metrics=(
            Metric(name="charge", kind=MetricKind.SUM, input=parse_expression("abs(amps) / 3600.0")),
            Metric(
                name="in_spec",
                kind=MetricKind.COUNT,
                input=None,
                where=parse_expression("volts > 3.0 and temperature < 40.0"),
                type=ColumnType.INT64,
            ),
            Metric(
                name="energy",
                kind=MetricKind.INTEGRAL,
                input=parse_expression("amps * volts"),
                max_gap_us=MINUTE,
            ),
        ),
        rollups=(
            Rollup(
                name="quarter",
                bucket=Bucket(kind=BucketKind.CLOCK, zone="Europe/Berlin", length_us=15 * MINUTE),
                aggregates=(
                    Aggregate(name="n", function=AggregateFunction.COUNT, input=None),
                    Aggregate(name="mean", function=AggregateFunction.AVG, input=volts),
                ),
            ),
            Rollup(
                name="hourly",
                bucket=Bucket(kind=BucketKind.CLOCK, zone="Europe/Berlin", length_us=HOUR),
                aggregates=(
                    Aggregate(name="top", function=AggregateFunction.MAX, input=volts),
                    Aggregate(name="sum", function=AggregateFunction.SUM, input=amps),
                ),
            ),
        ),
    )


def readings(rows: int, *, channels: int = 0) -> pa.Table:
    """Readings at a steady pace; with channels, one of each at every instant."""
    random = np.random.default_rng(7)
    per_instant = max(channels, 1)
    instants = START_US + np.arange(rows // per_instant) * (DAY // (rows // per_instant))
    event_us = np.repeat(instants, per_instant)
    columns: dict[str, object] = {
        EVENT_US: event_us,
        POSITION: np.arange(len(event_us)) * 40,
        "amps": random.normal(0, 2, len(event_us)),
        "volts": random.uniform(2.5, 4.2, len(event_us)),
        "temperature": random.uniform(15, 45, len(event_us)),
        "state": random.integers(0, 4, len(event_us)),
    }
    if channels:
        names = pa.array([f"CH{number:04d}" for number in range(channels)])
        columns[CHANNEL] = names.take(pa.array(np.tile(np.arange(channels), len(instants))))
    return pa.table(columns)


def fragment(table: pa.Table, uri: str) -> FragmentInput:
    """All of a table as one fragment."""
    return FragmentInput(readings=table, uri=uri, rows=table.num_rows)


def measure(fragments: list[FragmentInput], definition: ScanSpec) -> float:
    """Readings per second of CPU."""
    rows = sum(each.rows for each in fragments)
    best = float("inf")
    for _ in range(8):
        start = process_time()
        scan_segment(SEGMENT, fragments, definition)
        best = min(best, process_time() - start)
    return rows / best


def thin(table: pa.Table, keep: NDArray[np.bool_]) -> pa.Table:
    """Some of the readings."""
    return table.filter(pa.array(keep)).combine_chunks()


def main() -> None:
    """Print one line of JSON."""
    pa.set_cpu_count(1)
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    one = readings(rows)
    choice = np.random.default_rng(1).random(one.num_rows)
    alone = measure([fragment(one, "a")], spec())
    disjoint = [fragment(thin(one, choice < 0.5), "a"), fragment(thin(one, choice >= 0.5), "b")]
    half = one.slice(0, rows // 2).combine_chunks()
    many = readings(rows, channels=1_000)
    found = {
        "one sorted fragment": alone,
        "two interleaved fragments": measure(disjoint, spec()),
        "two equal fragments": measure([fragment(half, "a"), fragment(half, "b")], spec()),
        "1,000 channels": measure([fragment(many, "a")], spec(has_channel=True)),
    }
    print(json.dumps({name: round(value) for name, value in found.items()}))


if __name__ == "__main__":
    main()
