"""Real instrument files through the whole path, in pieces and shuffled: their own totals, and the same bits."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.plant import Plant
from tests.real_plant import (
    DESCRIPTION,
    ingest,
    ingest_shuffled,
    put,
    quake_header,
    quakes_by_update,
    write_pieces,
    write_whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.postgres, pytest.mark.real_data, pytest.mark.slow]


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant that takes the files of every instrument."""
    built = Plant(tmp_path, dsn, description=DESCRIPTION)
    yield built
    built.pool.close()


def test_quakes_in_the_order_of_their_updates_give_the_bits_of_quakes_in_order(
    plant: Plant, real_data: Path
) -> None:
    events = quakes_by_update(real_data)
    header = quake_header(real_data)
    times = [at for _, at, _ in events]
    newest, out_of_order = "", 0
    for at in times:
        out_of_order += at < newest
        newest = max(newest, at)
    assert out_of_order > 0.8 * len(events)
    size = 400
    batch: list[Path] = []
    for number, start in enumerate(range(0, len(events), size)):
        by_net: dict[str, list[str]] = {}
        for net, _, line in events[start : start + size]:
            by_net.setdefault(net, []).append(line)
        for net, lines in by_net.items():
            batch.append(put(plant, f"quakes/{net}/{number}.csv", (header + "".join(lines)).encode()))
        if number % 6 == 5:
            ingest(plant, batch)
            batch = []
    ingest(plant, batch)
    assert plant.rows("select sum(readings)::int, count(distinct subject_key) from disarray.segment") == [
        (10_134, 15)
    ]
    replayed = plant.derived()
    plant.forget_everything()
    ordered: dict[str, list[str]] = {}
    for net, _, line in sorted(events, key=lambda event: event[1]):
        ordered.setdefault(net, []).append(line)
    ingest(
        plant,
        [
            put(plant, f"quakes/{net}/ordered.csv", (header + "".join(lines)).encode())
            for net, lines in ordered.items()
        ],
    )
    assert plant.derived() == replayed


def test_instruments_meet_their_own_totals_whatever_the_pieces_and_their_order(
    plant: Plant, real_data: Path
) -> None:
    ingest_shuffled(plant, write_pieces(plant, real_data), random.Random(7), batches=5)
    in_pieces = plant.derived()
    totals = {
        (str(subject), str(metric)): float(str(value))
        for subject, metric, value in plant.rows(
            """
            select distinct on (subject_key, metric)
                subject_key, metric, coalesce(base_float + total_float, base_int + total_int)
            from disarray.segment_metric
            where dataset <> 'danfoss'
            order by subject_key, metric, segment_us desc, piece desc
            """
        )
    }
    assert totals["CH70", "records"] == 11_669
    assert totals["CH34", "records"] == 4_061
    assert totals["CH70", "charged"] == pytest.approx(88.6079, rel=1e-3)
    assert totals["CH70", "discharged"] == pytest.approx(89.2035, rel=1e-3)
    assert totals["CH34", "charged"] == pytest.approx(8.6263, rel=1e-3)
    assert totals["CH34", "discharged"] == pytest.approx(4.7626, rel=1e-3)
    assert totals["UIO", "charged"] == pytest.approx(0.017769, abs=5e-7)
    assert totals["UIO", "discharged"] == pytest.approx(0.020744, abs=5e-7)
    [yielded] = [value for (_, metric), value in totals.items() if metric == "yielded"]
    assert yielded == pytest.approx(129.790, abs=1e-6)
    assert plant.rows("select count(distinct channel) from disarray.rollup where dataset = 'danfoss'") == [
        (13,)
    ]
    [(maxima,)] = plant.rows(
        """
        select sum(day.highest) from (
            select max(value_float) as highest from disarray.rollup
            where dataset = 'danfoss' group by channel, bucket_us
        ) as day
        """
    )
    assert maxima == pytest.approx(1_660.736, abs=1e-6)

    plant.forget_everything()
    ingest(plant, write_whole(plant, real_data))
    assert plant.derived() == in_pieces
