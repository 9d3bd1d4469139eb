"""What made a value: base and fold, also where a reset shares its instant with readings before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.model.segments import microseconds_of
from disarray.queries.explanations import explain
from tests.plant import Plant
from tests.store.conftest import DATASET
from tests.store.test_values import START

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres


def test_a_value_after_a_reset_at_the_instant_of_the_last_reading_before_it_has_no_base(
    tmp_path: Path, dsn: str
) -> None:
    plant = Plant(tmp_path, dsn, description=DATASET.replace("key = []", 'key = "content"'))
    rows = ("00:10,a,1,5,J1", "01:10,a,1,1,J1", "01:20,a,1,1,J1", "01:20,a,1,2,J2", "01:30,a,1,4,J2")
    text = "".join(f"2026-10-01T{row}\n" for row in rows)
    plant.ingest(plant.write("T1/a.csv", f"time,slot,amps,good,job\n{text}"))
    dataset = plant.datasets["cells"]
    with plant.pool.connection() as connection:
        [found] = explain(
            connection,
            plant.place.lake,
            dataset=dataset,
            subject_key="T1",
            metric=next(each for each in dataset.metrics if each.name == "good_in_job"),
            at_us=microseconds_of(START.replace(hour=1, minute=20)),
        )
    assert (found.value.number, found.base, found.local) == (2, None, 2)
    plant.pool.close()
